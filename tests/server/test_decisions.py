"""Addresses that are tried, over HTTP and on the page: scope, patterns, robots.txt and login."""

from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.explained.answers import Decisions
from smartcrawl.server.keys import Scope
from tests.registry.build import Desk
from tests.server.api_client import application, ask, error_of
from tests.server.pages.browsing import Visitor, made_key, parsed, words

NOW = 1_750_000_000
SOURCES = """
[sources.docs]
seeds = ["https://docs.example/"]
excluded_patterns = ["/old/"]
visibility = "public"
index_modes = [{ pattern = "/tag/", mode = "links_only" }]

[sources.wiki]
seeds = ["https://wiki.example/"]

[sources.wiki.auth]
kind = "basic"
user = "A_USER"
password = "A_PASSWORD"
logout_patterns = ["/bye$"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sources.toml").write_text(SOURCES)
    desk = Desk(tmp_path / "registry.db")
    desk.open(now=NOW)
    desk.index("https://docs.example/known", "a lantern", title="Known")
    desk.seal(now=NOW)
    with transaction(desk.connection):
        desk.connection.execute(
            "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, 200, ?)",
            ("https://docs.example", NOW, b"User-agent: *\nDisallow: /secret"),
        ).fetchall()
    desk.close()
    return tmp_path


@pytest.fixture
def app(folder: Path) -> ASGIApp:
    return application(folder, clock=lambda: float(NOW))


def tried(app: ASGIApp, *urls: str, **more: Any) -> list[dict[str, Any]]:
    headers = more.pop("headers", {})
    body = {"urls": urls} | more
    answer = ask(app, "POST", "/api/v1/decisions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    found = Decisions.model_validate(answer.json())
    return [one.model_dump() for one in found.decisions]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("new", "requested once a page links to it, and indexed"),
        ("tag/x", "requested once a page links to it; its links count, and it is not indexed"),
        ("old/x", "left out: "),
        ("secret/x", "left out: disallowed by robots.txt, line 2: 'Disallow: /secret'"),
        ("x.zip", "left out: "),
    ],
)
def test_a_source_says_what_it_would_do(app: ASGIApp, path: str, text: str):
    (one,) = tried(app, f"https://docs.example/{path}")
    (decision,) = one["sources"]

    assert decision["source"] == "docs"
    assert decision["text"].startswith(text)
    assert decision["isTaken"] == (not text.startswith("left out"))
    expected = "Taken by docs." if decision["isTaken"] else "Left out by every source"
    assert one["sentence"].startswith(expected)


def test_it_says_the_same_as_the_report_of_an_address(app: ASGIApp):
    for path in ("old/x", "secret/x", "x.zip", "new"):
        url = f"https://docs.example/{path}"
        (decision,) = tried(app, url)[0]["sources"]
        story = ask(app, "GET", "/api/v1/records", params={"url": url}).json()
        refused = {one["source"]: one["why"] for one in story["refusedBy"]}
        why = refused.get("docs")
        assert decision["isTaken"] == (why is None)
        if why is not None:
            assert decision["text"] == f"left out: {why}"


def test_the_login_goes_to_its_origins_and_ends_no_session(folder: Path, app: ASGIApp):
    admin = {"X-API-Key": made_key(folder, Scope.ADMIN)}
    urls = [f"https://wiki.example/{path}" for path in ("page", "logout", "good/bye")]
    found = [one["sources"][0] for one in tried(app, *urls, headers=admin)]

    assert [one["login"] for one in found] == [
        {"isSent": True, "logsOut": False},
        {"isSent": False, "logsOut": True},
        {"isSent": False, "logsOut": True},
    ]
    assert found[0]["text"].endswith("with the login of the source")
    assert found[1]["text"] == "left out: it would log out"


def test_a_known_address_leads_to_its_record(app: ASGIApp):
    (one,) = tried(app, "https://docs.example/known")
    assert one["records"] == [{"no": 1, "source": "docs"}]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("mailto:a@a.example", "must be an http or https address"),
        ("", "must be an http or https address"),
        ("https://a:b@docs.example/", "must not contain a user name"),
        ("http://169.254.169.254/latest", "ALLOW_NETWORKS"),
        ("http://127.0.0.1:1/", "ALLOW_NETWORKS"),
        ("https://docs.example/\u202e\x01", "control characters"),
        ("https://nowhere.example/", "No source has its host in scope"),
    ],
)
def test_an_address_that_is_none_gets_a_sentence_and_the_others_their_decision(
    app: ASGIApp, url: str, why: str
):
    bad, good = tried(app, url, "https://docs.example/new")

    assert why in bad["sentence"]
    assert bad["sources"] == []
    assert good["sentence"] == "Taken by docs."


def test_a_private_source_is_as_if_it_were_not_there(folder: Path, app: ASGIApp):
    (one,) = tried(app, "https://wiki.example/page")
    assert one["sentence"] == "No source has its host in scope."
    for name in ("wiki", "none"):
        body = {"urls": ["https://wiki.example/"], "source": name}
        answer = ask(app, "POST", "/api/v1/decisions", json=body)
        assert (answer.status_code, error_of(answer)["details"]) == (
            404,
            {"reason": "no source has this name"},
        )


def test_a_reader_may_try_a_bounded_number_of_addresses(folder: Path, app: ASGIApp):
    reader = {"X-API-Key": made_key(folder, Scope.READ)}
    assert tried(app, "https://docs.example/new", source="docs", headers=reader)
    box = {"X-API-Key": made_key(folder, Scope.SEARCH, "docs")}
    for headers, number, status in ((box, 1, 403), (reader, 101, 400), (reader, 0, 400)):
        body = {"urls": ["https://docs.example/"] * number}
        assert ask(app, "POST", "/api/v1/decisions", json=body, headers=headers).status_code == (
            status
        )


# The page


def test_the_page_shows_each_decision(folder: Path, app: ASGIApp):
    visitor = Visitor(app)
    typed = "docs.example/new\nhttps://docs.example/old/x\nhttps://docs.example/known"
    page = parsed(visitor.get("/try", params={"urls": typed, "source": "docs"}))

    rows = [words(tr) for tr in page.xpath("//tbody/tr")]
    assert "taken requested once a page links to it" in rows[0]
    assert "left out" in rows[1]
    assert page.xpath("//a[@href='/records/1']")
    assert (page.get_element_by_id("urls").text or "").strip() == typed
    assert page.xpath("//option[@selected]/@value") == ["docs"]
    assert page.xpath("//nav//a[@href='/try']")


@pytest.mark.parametrize(
    "typed",
    [
        "<script>alert(1)</script>",
        "javascript:alert(1)",
        "https://docs.example/<b hx-get=/x>\u202e",
    ],
)
def test_hostile_addresses_are_text(app: ASGIApp, typed: str):
    page = parsed(Visitor(app).get("/try", params={"urls": typed}))

    assert page.xpath("//b | //main//script | //*[@hx-get]") == []
    assert not [href for href in page.xpath("//a/@href") if not href.startswith(("/", "#"))]
    assert "\u202e" not in words(page.get_element_by_id("main")).replace(typed, "")


def test_too_many_addresses_are_refused_at_the_field(app: ASGIApp):
    typed = "\n".join(["https://docs.example/"] * 101)
    answer = Visitor(app).get("/try", params={"urls": typed})

    assert answer.status_code == 400
    page = parsed(answer)
    assert page.get_element_by_id("urls").get("aria-invalid") == "true"
    assert "at most 100" in words(page.get_element_by_id("urls-error"))


def test_a_try_stores_no_record(folder: Path, app: ASGIApp):
    connection = registry_database(folder / "registry.db").open()
    before = connection.execute("SELECT count(*) FROM record").get
    tried(app, "https://docs.example/new", "https://docs.example/old")
    assert connection.execute("SELECT count(*) FROM record").get == before
    connection.close()

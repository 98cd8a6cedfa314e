"""The page of the search: its hits, filters, empty states, and the crawl that begins there."""

import re
from pathlib import Path
from uuid import uuid4

import pytest
from starlette.types import ASGIApp

from smartcrawl.index import facets
from smartcrawl.model.documents import Image, Section
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.model import Outcome
from smartcrawl.server.keys import Scope
from smartcrawl.server.pages import search
from smartcrawl.server.pages.search import Asked
from tests.registry.build import NOW, Desk, begin_registry
from tests.server.api_client import application, ask
from tests.server.pages.browsing import Visitor, form_of, made_key, parsed, words

DAY = 86_400
SITE = "https://docs.example"
TYPING = {"HX-Request": "true"}


def fill(file: Path) -> None:
    """Pages about lanterns in two sources, one of which is private."""
    desk = Desk(file)
    for source in ("docs", "secret"):
        desk.source = source
        desk.open()
        if source == "secret":
            desk.index("https://secret.example/", "a hidden lantern", title="Hidden")
            break
        logo = Image("/_static/logo.png", "Logo", context="Lanterns")  # the heading before it
        picture = Image("/lantern.png", "a lantern <b>", 640, 480, "")
        sections = (
            Section(1, "Lanterns", "Every lantern needs oil."),
            Section(2, "Oil & wick", "The oil of a lantern is renewed."),
        )
        fields = {"sections": sections, "images": (logo, picture)}
        desk.index(f"{SITE}/lantern", title="All about lanterns", document_fields=fields)
        desk.index(f"{SITE}/lost", "a lost lantern", title="Lost")
        desk.index(f"{SITE}/pdf", "lantern manual", title="", content_type="application/pdf")
        for number in range(12):
            german = {"language": "de"}
            text = f"quay number {number}"
            desk.index(f"{SITE}/quay/{number}", text, title=f"Q{number}", document_fields=german)
        desk.seal()
        desk.open()
        desk.write(desk.visit(f"{SITE}/lost", outcome=Outcome.HTTP_ERROR, status=500))
    with transaction(desk.connection):
        desk.connection.execute("UPDATE source SET visibility = 'private' WHERE name = 'secret'")
    desk.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("searched")
    fill(made / "registry.db")
    return made


@pytest.fixture(scope="module")
def app(folder: Path) -> ASGIApp:
    place = {"registry": folder / "registry.db"}
    return application(folder, run=place, clock=lambda: NOW + 3.0 * DAY, pages_limit=10**9)


@pytest.fixture
def visitor(app: ASGIApp) -> Visitor:
    return Visitor(app)


def titles(page) -> list[str]:
    return [words(found) for found in page.xpath("//ol/li/h2")]


@pytest.mark.parametrize(
    ("path", "typed"), [("/", ""), ("/?q=https://docs.example.com/none-of-it", None)]
)
def test_the_search_asks_for_the_address_of_a_page_that_it_does_not_find(
    visitor: Visitor, path: str, typed: str | None
):
    page = visitor.page(path)

    field = page.get_element_by_id("record")
    assert field.get("value") == (path[4:] if typed is None else typed)
    assert form_of(page, "/records").method == "GET"


def test_an_address_among_the_words_leads_to_its_record(visitor: Visitor):
    page = visitor.page("/?q=https://docs.example.com/")

    (link,) = page.xpath("//main//p[@class='notice']/a")
    assert link.get("href") == "/records?url=https%3A%2F%2Fdocs.example.com%2F"
    assert not visitor.page("/?q=lantern").xpath("//main//p[@class='notice']")


def test_the_first_page_is_the_search(visitor: Visitor):
    page = visitor.page("/")

    assert page.findtext(".//title") == "Search – smartcrawl"
    field = page.get_element_by_id("q")
    assert field.get("autofocus") is not None
    assert [words(label) for label in page.xpath("//label[@for='q']")] == [
        "Search the crawled pages"
    ]
    assert [words(link) for link in page.xpath("//section//li/a")] == ["docs"]  # none private
    assert page.xpath("//link[@rel='search']/@href") == ["/opensearch.xml"]


def test_a_hit_shows_what_was_found_where_and_when(visitor: Visitor):
    page = visitor.page("/?q=lantern+oil")

    hit = page.xpath("//ol/li")[0]
    link = hit.find("h2").find("a")
    assert words(link) == "All about lanterns"
    assert link.get("href").startswith(f"{SITE}/lantern")
    assert link.get("rel") == "noreferrer noopener nofollow"
    assert {words(found).lower() for found in hit.iter("mark")} >= {"lantern", "oil"}
    assert "Oil & wick" in words(hit)
    assert "\\x0" not in words(page)
    times = [(found.get("datetime"), words(found)) for found in hit.iter("time")]
    assert times == [("2025-06-15T15:06:40Z", "3 days ago")]
    assert "changed 3 days ago" in words(hit)
    assert hit.find_class("facts-line")[0].xpath("a/@href")[0] == "/?q=lantern+oil&source=docs"
    assert page.xpath("//div[@hx-disable]//ol") != []


def test_a_picture_that_matched_is_a_card_that_loads_nothing(visitor: Visitor):
    page = visitor.page("/?q=lantern+oil")

    (card,) = page.find_class("pictures")
    assert words(card) == f"a lantern <b> 640 × 480 {SITE}/lantern.png"
    assert page.xpath("//main//img | //main//b") == []


def test_a_lost_page_says_that_it_is_the_last_copy(visitor: Visitor):
    page = visitor.page("/?q=lost+lantern")

    badges = {words(hit.find("h2")): words(hit.find_class("facts-line")[0]) for hit in
              page.xpath("//ol/li")}  # fmt: skip
    assert "last copy" in badges["Lost"]
    assert "last copy" not in badges["All about lanterns"]


def test_results_come_in_pages(visitor: Visitor):
    first = visitor.page("/?q=quay")
    assert len(titles(first)) == 10
    (following,) = first.xpath("//nav[@aria-label='Pages of results']/a")
    assert following.get("href") == "/?q=quay&offset=10"

    second = visitor.page(following.get("href"))
    assert len(titles(second)) == 2
    assert set(titles(first)) | set(titles(second)) == {f"Q{number}" for number in range(12)}
    (before,) = second.xpath("//nav[@aria-label='Pages of results']/a")
    assert before.get("href") == "/?q=quay"
    assert "No further pages" in words(visitor.page("/?q=quay&offset=100"))


def test_filters_are_kept_and_can_be_left_out(visitor: Visitor):
    page = visitor.page("/?q=lantern&type=pdf")
    assert titles(page) == ["pdf"]
    (chip,) = page.xpath("//ul[@aria-label='Filters']//a")
    assert (words(chip), chip.get("href")) == ("type: pdf ×", "/?q=lantern")
    form = form_of(page, "/")
    assert dict(form.fields) == {"q": "lantern", "type": "pdf"}

    assert titles(visitor.page("/?q=lantern&language=de")) == []
    hidden = visitor.page("/?q=lantern&language=de&date=2025-06")
    (out,) = hidden.xpath("//a[.='Search without filters']")
    assert out.get("href") == "/?q=lantern"
    assert len(titles(visitor.page("/?q=lantern&date=2025-06-15&source=docs"))) == 3
    assert titles(visitor.page("/?q=lantern&date=2024")) == []


def test_a_filter_that_is_gone_is_named(visitor: Visitor):
    page = visitor.page("/?q=lantern&source=gone", status=400)

    assert "gone" in words(page.get_element_by_id("q-error"))
    assert page.get_element_by_id("q").get("aria-describedby") == "q-error"
    assert page.xpath("//ul[@aria-label='Filters']//a/@href") == ["/?q=lantern"]
    # a private source is as one that never was
    secret = words(
        visitor.page("/?q=lantern&source=secret", status=400).get_element_by_id("q-error")
    )
    assert secret == words(page.get_element_by_id("q-error")).replace("gone", "secret")


def test_what_was_meant_is_said(visitor: Visitor):
    page = visitor.page("/?q=lantren")

    assert "Shown are pages for lantern." in words(page)
    exact = page.xpath("//main//p[@role='status']/a/@href")
    assert exact[-1] == "/?q=%22lantren%22"
    filtered = visitor.page("/?q=lantren&source=docs&language=en")
    assert "Shown are pages for lantern." in words(filtered)
    nothing = visitor.page("/?q=zzzxq")
    assert "No page was found" in words(nothing)


def test_while_typing_only_the_results_come(visitor: Visitor):
    answer = visitor.get("/?q=lantern", headers=TYPING)

    assert "<main" not in answer.text
    assert "<html" not in answer.text
    assert len(titles(parsed(answer))) == 3
    field = visitor.page("/").get_element_by_id("q")
    assert field.get("hx-sync") == "this:replace"  # older answers never replace newer ones
    assert "delay:300ms" in field.get("hx-trigger")
    assert visitor.get("/?q=lantern&source=gone", headers=TYPING).status_code == 200


@pytest.mark.parametrize(
    "q",
    ['"', '"lantern', "-", "site:", "in:", "type:", "NEAR(a b)", "a OR b AND NOT c*", "^a", "%",
     "\u202e", "title:lantern", "((((", "\x01", "🏮", "type:x", "after:x", "x" * 4_096, "'"],
)  # fmt: skip
def test_no_query_is_too_odd(visitor: Visitor, q: str):
    answer = visitor.get("/", params={"q": q, "source": "docs"})

    assert answer.status_code in (200, 400)
    assert "req_" not in words(parsed(answer))


def test_a_query_that_is_too_long_is_refused_at_its_field(visitor: Visitor):
    page = visitor.page("/", status=400, params={"q": "x" * 10_000})

    assert words(page.get_element_by_id("q-error")) == "a search has at most 4,096 characters."


def test_a_lone_quote_does_not_take_a_filter(visitor: Visitor):
    assert Asked('"a', source="docs").query() == 'in:"docs" "a'
    assert Asked.of({"q": "a", "source": 'x" b'}).query() == 'in:"x b" a'
    assert Asked.of({"language": "de x", "type": "a b", "date": "2026-02-30"}).query() == ""
    assert Asked.of({"date": "9999-12-31", "offset": "-1"}) == Asked()
    assert Asked.of({"offset": "99999999"}).offset == 1_000


def test_a_key_sees_its_sources(folder: Path):
    place = {"registry": folder / "registry.db"}
    app = application(folder, run=place, host="0.0.0.0")
    for sources, found in (((), []), (("secret",), ["Hidden"])):
        visitor = Visitor(app)
        visitor.submit("/login", "/login", key=made_key(folder, Scope.READ, *sources))
        assert titles(visitor.page("/?q=hidden")) == found
    page = visitor.page("/crawl")
    assert "operate" in words(page)
    assert [form.get("action") for form in page.forms] == ["/logout", "/theme"]


def test_a_key_of_a_search_box_opens_no_session(folder: Path):
    place = {"registry": folder / "registry.db"}
    visitor = Visitor(application(folder, run=place, host="0.0.0.0"))

    answer = visitor.submit("/login", "/login", key=made_key(folder, Scope.SEARCH, "docs"))
    assert answer.status_code == 403
    assert "scope search is for search boxes only" in words(parsed(answer))
    assert visitor.get("/").status_code == 303


def test_the_description_of_the_search_names_this_server(visitor: Visitor):
    answer = visitor.get("/opensearch.xml", headers={"Sec-Fetch-Site": "cross-site"})

    assert answer.headers["Content-Type"] == (
        "application/opensearchdescription+xml; charset=utf-8"
    )
    assert 'template="http://localhost:8080/?q={searchTerms}"' in answer.text


@pytest.fixture
def empty(tmp_path: Path) -> Visitor:
    begin_registry(tmp_path / "registry.db")
    return Visitor(application(tmp_path, run={"registry": tmp_path / "registry.db"}))


@pytest.mark.parametrize("typing", [{}, TYPING])
def test_a_search_where_nothing_was_crawled_has_the_form_of_the_first_address(
    empty: Visitor, typing: dict[str, str]
):
    answer = empty.get("/?q=lantern", headers=typing)

    assert answer.status_code == 200
    assert "Nothing was crawled yet" in answer.text
    assert "No page was found" not in answer.text
    assert {"url", "once"} <= set(form_of(parsed(answer), "/crawl").fields)


def test_where_nothing_was_crawled_one_address_begins(empty: Visitor):
    page = empty.page("/")
    assert "Nothing was crawled yet" in words(page)

    answer = empty.submit("/", "/crawl", url="docs.example.com/guide")
    assert answer.status_code == 303
    path = answer.headers["Location"]
    assert re.fullmatch("/crawl/job_[0-9a-f]{16}", path)
    job = ask(empty.app, "GET", f"/api/v1/jobs/{path.rpartition('/')[2]}").json()
    assert job["name"] == "docs.example.com"
    assert job["seed_urls"] == ["https://docs.example.com/guide"]
    shown = empty.page(path)
    assert words(shown.find(".//h1")) == "Crawl of docs.example.com"
    assert "waits for its turn" in words(shown)
    assert [button.get("value") for button in form_of(shown, path).iter("button")] == ["cancel"]
    live = shown.get_element_by_id("progress")
    assert (live.get("hx-get"), live.get("hx-trigger")) == (path, "every 2s, seen")
    assert empty.get(path, headers=TYPING).status_code == 200
    cancelled = empty.post(path, {"action": "cancel"})
    assert (cancelled.status_code, cancelled.headers["Location"]) == (303, path)
    ended = empty.get(path, headers=TYPING)
    assert ended.status_code == 286  # htmx asks no more
    assert "The crawl is cancelled" in words(parsed(ended))
    again = empty.post(path, {"action": "pause"})
    assert again.status_code == 409
    assert "cancelled" in words(parsed(again).xpath("//main//p[@role='alert']")[0])
    assert empty.post(path, {"action": "explode"}).status_code == 400


def test_a_crawl_that_is_done_is_begun_again(empty: Visitor, tmp_path: Path):
    path = empty.submit("/", "/crawl", url="docs.example.com").headers["Location"]
    connection = registry_database(tmp_path / "registry.db").open()
    with transaction(connection):
        connection.execute("UPDATE job SET status = 'completed'")

    done = empty.page(path)
    assert "The crawl is done: 0 pages." in words(done)
    assert done.get_element_by_id("progress").get("hx-get") is None
    (again,) = form_of(done, path).iter("button")
    assert (words(again), again.get("value")) == ("Crawl it again", "start")
    assert empty.post(path, {"action": "start"}).status_code == 303
    assert "waits for its turn" in words(empty.page(path))
    connection.close()


def test_a_name_that_is_taken_gets_a_number_and_a_double_click_begins_once(empty: Visitor):
    once = str(uuid4())
    fields = {"url": "https://docs.example.com/", "once": once}
    first, second = (empty.post("/crawl", fields) for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]

    other = {"url": "https://docs.example.com/b", "once": str(uuid4())}
    third, fourth = (empty.post("/crawl", other) for _ in range(2))
    assert third.headers["Location"] == fourth.headers["Location"] != first.headers["Location"]
    jobs = ask(empty.app, "GET", "/api/v1/jobs").json()["jobs"]
    assert [job["name"] for job in jobs] == ["docs.example.com", "docs.example.com-2"]


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "must be an http or https address"),
        ("ftp://a.example/", "must be an http or https address"),
        ("javascript:alert(1)", "must be an http or https address"),
        ("https://a:b@a.example/", "must not contain a user name"),
        ("http://127.0.0.1/", "ALLOW_NETWORKS"),
        ("https://[", "must be an http or https address"),
    ],
)
def test_an_address_that_is_refused_is_told_at_its_field(empty: Visitor, url: str, why: str):
    answer = empty.submit("/", "/crawl", url=url)

    assert answer.status_code == 400
    page = parsed(answer)
    field = page.get_element_by_id("url")
    assert field.get("value") == url
    assert field.get("aria-invalid") == "true"
    assert why in words(page.get_element_by_id("url-error"))
    assert field.get("aria-describedby") == "url-hint url-error"


def test_a_key_that_reads_begins_nothing(folder: Path):
    place = {"registry": folder / "registry.db"}
    visitor = Visitor(application(folder, run=place, host="0.0.0.0"))
    visitor.submit("/login", "/login", key=made_key(folder))
    token = form_of(visitor.page("/"), "/logout").fields["token"]

    answer = visitor.post("/crawl", {"url": "https://a.example/", "token": token})
    assert answer.status_code == 403


def test_a_crawl_that_does_not_exist_is_said_in_words(visitor: Visitor):
    for job in ("job_0123456789abcdef", "x", "..%2f..%2fkeys"):
        assert "There is no such page" in words(visitor.page(f"/crawl/{job}", status=404))


def facets_of(page) -> dict[str, list[str]]:
    return {
        words(head): [words(link) for link in head.getnext().iter("a")]
        for head in page.xpath("//aside//h2")
    }


def test_facets_narrow_an_answer_down_and_widen_it_again(visitor: Visitor):
    page = visitor.page("/?q=lantern+quay")
    assert words(page.xpath("//main//p[@role='status']")[0]).startswith("15 pages ·")
    assert facets_of(page) == {"Language": ["de 12", "en 3"], "Type": ["html 14", "pdf 1"]}

    (link,) = page.xpath("//aside//a[.//bdi='en']")
    assert link.get("href") == "/?q=lantern+quay&language=en"
    narrow = visitor.page(link.get("href"))
    assert len(titles(narrow)) == 3
    (chosen,) = narrow.xpath("//aside//a[@aria-current]")
    assert (words(chosen), chosen.get("href")) == ("en 3", "/?q=lantern+quay")
    assert facets_of(narrow)["Language"] == ["de 12", "en 3"]  # what another choice would find
    assert facets_of(narrow)["Type"] == ["html 2", "pdf 1"]


def test_more_pages_than_are_counted_are_shown_as_such(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "MOST_COUNTED", 12)
    monkeypatch.setattr(facets, "MOST_COUNTED", 12)

    page = visitor.page("/?q=lantern+quay")
    assert words(page.xpath("//main//p[@role='status']")[0]).startswith("12+ pages ·")
    assert facets_of(page)["Language"][0] == "de 12+"


def test_the_latest_pages_come_first_where_that_is_wanted(visitor: Visitor):
    page = visitor.page("/?q=lantern")
    (link,) = page.xpath("//main//p[@role='status']/a")
    assert (words(link), link.get("href")) == ("latest first", "/?q=lantern&sort=date")

    latest = visitor.page("/?q=lantern&sort=date&type=html")
    assert len(titles(latest)) == 2
    assert dict(form_of(latest, "/").fields) == {"q": "lantern", "type": "html", "sort": "date"}
    (link,) = latest.xpath("//main//p[@role='status']/a")
    assert link.get("href") == "/?q=lantern&type=html"
    assert Asked.of({"sort": "x"}).sort == ""

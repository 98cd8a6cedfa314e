"""Sources that log in by tokens of OAuth: one for all, renewed in time, refused once (ADR 146)."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.guarded_site import Guard, pages
from tests.lab.lab import Lab
from tests.lab.lab_site import LabSite
from tests.site_server import Page

CLIENT, SECRET = "bot", "geheim-9d41"


class Tokens(LabSite):
    """A token endpoint at https://id.example/token; its tokens count at ``guard``."""

    lasts: object = 3600  #: expires_in
    status = 200
    answer_body: bytes | None = None
    grants = True

    def __init__(self, guard: "Docs") -> None:
        super().__init__("id.example", scheme="https")
        self.guard = guard
        self.forms: list[dict[str, list[str]]] = []
        self.granted = 0

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Any:
        self.forms.append(parse_qs(self.posted.decode()))
        pair = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        status, body = self.status, {"error": "invalid_client"}
        if (method, path, headers.get("authorization")) != ("POST", "/token", f"Basic {pair}"):
            status = 401
        if status == 200:
            self.granted += 1
            token = f"tok-{self.granted}"
            body = {"access_token": token, "token_type": "bearer", "expires_in": self.lasts}
            if self.grants:
                self.guard.token = token
                self.guard.sessions.clear()
        text = json.dumps(body) if self.answer_body is None else self.answer_body.decode()
        headers_of = {"Location": "/elsewhere"} if status == 302 else {}
        self.pages["/token"] = Page(
            text, status=status, content_type="application/json", headers=headers_of
        )
        return super().answer("GET", path, headers)


class Docs(Guard, LabSite):
    """A site whose pages take the last token; each answer takes ``takes`` seconds."""

    wall = "401"
    token = "none yet"
    takes = 0
    lab: Lab

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Any:
        self.lab.crawl._ahead += self.takes
        return super().answer(method, path, headers)


@pytest.fixture
def site() -> Docs:
    return Docs()


@pytest.fixture
def docs(lab: Lab, site: Docs, monkeypatch: pytest.MonkeyPatch) -> Docs:
    """A site of 21 pages that takes tokens of ``docs.tokens``."""
    monkeypatch.setenv("DOCS_CLIENT", CLIENT)
    monkeypatch.setenv("DOCS_SECRET", SECRET)
    site.lab = lab
    site.pages |= pages()
    lab.crawl.web.sites.append(Tokens(site))
    declare(lab)
    return site


def declare(lab: Lab, more: str = "", token_url: str = "https://id.example/token") -> None:
    origin = lab.site.url("").rstrip("/")
    lab.crawl.sources_file.write_text(
        f'[sources.docs]\nseeds = ["{origin}/"]\n[sources.docs.auth]\nkind = "oauth2_client"\n'
        f'origins = ["{origin}"]\ntoken_url = "{token_url}"\nclient_id = "DOCS_CLIENT"\n'
        f'client_secret = "DOCS_SECRET"\n{more}\n'
    )
    lab.source = "docs"


def tokens(lab: Lab) -> Tokens:
    found = lab.crawl.web.sites[-1]
    assert isinstance(found, Tokens)
    return found


def stored(lab: Lab) -> tuple[int, int]:
    """Pages that a search finds, and the failures that count against them."""
    count = "SELECT count(*), coalesce(sum(lost_count + gone_count), 0) FROM state"
    return lab.rows(f"{count} WHERE standing = 2")[0]  # type: ignore[return-value]


def test_one_token_is_fetched_for_all_pages(lab: Lab, docs: Docs):
    declare(lab, 'scope = "docs.read wiki"')
    for granted in (1, 2):
        lab.run()
        assert (stored(lab), tokens(lab).granted) == ((21, 0), granted)
        lab.after(days=1)
    assert tokens(lab).forms[0] == {
        "grant_type": ["client_credentials"],
        "scope": ["docs.read wiki"],
    }
    assert {lab[path]["lastOutcome"] for path in docs.pages} == {"unchanged"}


@pytest.mark.long(but=2)
@pytest.mark.parametrize("wall", ["401", "404", "302", "teaser"])
def test_a_token_is_renewed_before_its_end(lab: Lab, docs: Docs, wall: Any):
    """Answers of 10 seconds each: a token of 60 seconds brings a few pages."""
    docs.wall, docs.takes, tokens(lab).lasts = wall, 10, 60
    for _ in range(2):
        lab.run()
        assert stored(lab) == (21, 0)
        assert {lab[path]["lastOutcome"] for path in docs.pages} <= {"new", "unchanged"}
        lab.after(days=1)
    assert 4 < tokens(lab).granted < 40


def test_an_answer_after_the_end_of_its_token_counts_for_nothing(lab: Lab, docs: Docs):
    """The page was asked in time; the token ended before the server had it."""
    lab.run()
    lab.after(days=1)
    tokens(lab).lasts = 60
    late, left = docs.answer, ["/p3"]

    def answer(method: str, path: str, headers: dict[str, str]) -> Any:
        if path in left:
            left.remove(path)
            lab.crawl._ahead += 61
            docs.token = "ended"
        return late(method, path, headers)

    docs.answer = answer  # type: ignore[method-assign]
    lab.run()
    assert stored(lab) == (21, 0)
    assert lab["/p3"]["lastOutcome"] == "unchanged"
    assert tokens(lab).granted == 3


def test_a_token_that_is_revoked_is_fetched_once_more(lab: Lab, docs: Docs):
    lab.run()
    lab.after(days=1)
    docs.lasts = 8
    ran = lab.run(expect=None)
    assert stored(lab) == (21, 0)
    assert (ran.status, ran.reasons[0], tokens(lab).granted) == (3, "login: ended twice", 3)
    docs.lasts = 10**9
    lab.after(days=1)
    lab.run()
    assert {lab[path]["lastOutcome"] for path in docs.pages} == {"unchanged"}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "login: refused (HTTP 400, invalid_client) by https://id.example/token"),
        (302, "login: https://id.example/token redirects, where the secret is not sent"),
        (503, "login: no answer: HTTP 503 on https://id.example/token"),
    ],
)
def test_a_token_endpoint_that_gives_none_ends_the_run(
    lab: Lab, docs: Docs, status: int, words: str
):
    lab.run()
    lab.after(days=1)
    tokens(lab).status = status
    asked = len(tokens(lab).forms)
    ran = lab.run(expect=3)
    assert ran.reasons[0] == words
    assert (stored(lab), [r.path for r in docs.log]) == ((21, 0), ["/robots.txt"])
    lab.after(hours=0.5)
    ran = lab.run(expect=3)
    again = len(tokens(lab).forms) - asked
    assert ("not tried again before" in ran.reasons[0], again) == (
        (False, 6) if status == 503 else (True, 1)
    )


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<html>", "its answer has no access_token"),
        (b'{"access_token": "a b"}', "its answer has no access_token"),
        (b'{"access_token": "a", "token_type": "mac"}', "its token is of another type"),
        (b'{"access_token": "a", "expires_in": 5}', "its tokens last for fewer than 10 seconds"),
        (b'{"access_token": "a", "expires_in": "soon"}', "its expires_in is no number"),
    ],
)
@pytest.mark.sqlite
def test_an_answer_without_a_token_is_a_refusal(lab: Lab, docs: Docs, body: bytes, words: str):
    tokens(lab).answer_body = body
    ran = lab.run(expect=3)
    assert f"login: no token from https://id.example/token, as {words}" in ran.reasons[0]


@pytest.mark.sqlite
def test_a_token_that_pages_do_not_take_is_a_refusal(lab: Lab, docs: Docs):
    tokens(lab).grants = False
    ran = lab.run(expect=3)
    assert (ran.reasons[0], tokens(lab).granted) == ("login: refused (HTTP 401)", 1)


@pytest.mark.sqlite
def test_a_secret_goes_by_http_only_where_that_is_declared(lab: Lab, docs: Docs):
    declare(lab, token_url="http://id.example/token")
    ran = lab.run(expect=1)
    assert "token_url begins with http://" in ran.err
    assert '"http://id.example"]' in ran.err
    assert tokens(lab).forms == []


@pytest.mark.sqlite
def test_a_client_is_who_asks(lab: Lab, docs: Docs, monkeypatch: pytest.MonkeyPatch):
    lab.run()
    monkeypatch.setenv("DOCS_SECRET", "another")
    lab.after(days=1)
    ran = lab.run(expect=3)
    assert ran.reasons[0].startswith("login: refused (HTTP 401, invalid_client)")
    monkeypatch.setenv("DOCS_SECRET", SECRET)
    lab.after(days=1)
    lab.run()
    assert lab.conditional("/p1") == [True]

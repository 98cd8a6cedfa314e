"""Requests of a crawl of a repository: none without a usable way, none for pages elsewhere."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.test import get_crawler

from smartcrawl import settings as shipped
from smartcrawl.engine.download import headers
from smartcrawl.engine.download.github import RepositoryHandler
from smartcrawl.engine.listing import repository_listing_of_scrapy_settings
from smartcrawl.model.exceptions import SettingError, StoreAwayError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.listing.entries import Entry
from smartcrawl.spiders import github
from smartcrawl.spiders.github import GithubSpider
from tests.github_peer import GithubPeer

SETTINGS = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}
SITE = "https://github.com/octo/docs"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)


# Before the run


@pytest.mark.covers("RD-20")
def test_a_proxy_that_cannot_be_used_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("https_proxy", "https://user:secret@proxy.example")
    settings = SETTINGS | {"DATA_DIR": str(tmp_path / "data"), "HTTPPROXY_ENABLED": True}
    monkeypatch.setattr(github, "check_project_settings", lambda *_: None)  # it is no project

    with pytest.raises(SettingError, match=r"https_proxy .* write http://") as caught:
        GithubSpider.from_crawler(get_crawler(GithubSpider, settings), url=SITE)

    assert "secret" not in str(caught.value)
    assert not (tmp_path / "data").exists()


# The listing


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[GithubPeer]:
    with GithubPeer(tmp_path) as peer:
        docs = peer.repository("octo/docs")
        docs.write("a.md", "a")
        docs.commit()
        yield peer


@pytest.mark.parametrize(("longest", "waits"), [(19, []), (25, [21])])
def test_a_spent_quota_is_waited_for_as_long_as_the_setting_permits(
    peer: GithubPeer, longest: int, waits: list[float]
):
    settings = SETTINGS | peer.settings | {"RETRY_AFTER_MAX_WAIT": longest}
    peer.quota, peer.reset_in = 0, 20
    waited: list[float] = []

    source = GithubSource(name="docs", url=SITE)
    listing = repository_listing_of_scrapy_settings(
        source,
        Options.of(settings),
        BaseSettings(settings),
        known=None,
        wait=peer.quota_wait(waited),
    )
    entries = [entry for batch in listing.batches() for entry in batch]

    assert [round(seconds) for seconds in waited] in (waits, [seconds - 1 for seconds in waits])
    assert (len(entries), len(listing.problems)) == ((1, 0) if waits else (0, 1))


# Files


@pytest.mark.covers("RD-20")
@pytest.mark.parametrize("wiki", [True, False])
def test_only_files_of_the_repository_are_read_with_the_token(
    monkeypatch: pytest.MonkeyPatch, wiki: bool
):
    """ATT-46: other requests leave as they are, for the wiki, or do not leave."""
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    sent: list[Request] = []

    async def send(self: object, request: Request) -> Response:
        sent.append(request)
        return Response(request.url, body=b"text")

    monkeypatch.setattr(headers.BoundedHttpHandler, "__init__", lambda self, crawler: None)
    monkeypatch.setattr(headers.BoundedHttpHandler, "download_request", send)
    source = GithubSource(name="docs", url=SITE, wiki=wiki)
    located = asyncio.Event()
    located.set()
    listed = SimpleNamespace(
        located=located, place="https://raw.example/octo/docs/c0", entry=lambda no: None
    )
    handler = RepositoryHandler(get_crawler(), _run(listed, source), source)

    def asked(url: str | None, request: str = f"{SITE}/blob/HEAD/a.md") -> int:
        page = url and Page(1, url, "", 0)
        meta = {"attempt": VisitAttempt(page)} if page else {}
        return asyncio.run(handler.download_request(Request(request, meta=meta))).status

    assert asked(f"{SITE}/blob/HEAD/a.md") == 200
    [file] = sent
    assert file.url == "https://raw.example/octo/docs/c0/a.md"
    assert file.headers["Authorization"] == b"Bearer secret"
    sent.clear()

    for url in ("https://github.com/octo/other/blob/HEAD/a.md", f"{SITE}/blob/main/a.md"):
        assert asked(url) == 403
        assert asked(url, request="https://raw.example/octo/docs/c0/a.md") == 403
    assert sent == []

    assert asked(f"{SITE}/wiki/Setup", request=f"{SITE}/wiki/Setup") == (200 if wiki else 403)
    assert asked(None, request="https://github.com/robots.txt") == (200 if wiki else 403)
    assert [request.url for request in sent] == (
        [f"{SITE}/wiki/Setup", "https://github.com/robots.txt"] if wiki else []
    )
    assert not any("Authorization" in request.headers for request in sent)


@pytest.mark.covers("R1-30")
@pytest.mark.parametrize(
    ("entry", "lacks", "is_missing"),
    [(None, True, True), (None, False, False), (Entry("", 4, '"a"', None), True, False)],
    ids=["lacked", "not lacked, or not listed to the end", "listed"],
)
def test_a_raw_404_is_evidence_only_where_the_listing_lacks_the_file(
    monkeypatch: pytest.MonkeyPatch, entry: Entry | None, lacks: bool, is_missing: bool
):
    async def send(self: object, request: Request) -> Response:
        return Response(request.url, status=404)

    monkeypatch.setattr(headers.BoundedHttpHandler, "__init__", lambda self, crawler: None)
    monkeypatch.setattr(headers.BoundedHttpHandler, "download_request", send)
    source = GithubSource(name="docs", url=SITE)
    over = asyncio.Event()
    over.set()
    listed = SimpleNamespace(
        located=over,
        ended=over,
        place="https://raw.example/octo/docs/c0",
        entry=lambda no: entry,
        lacks=lambda no: lacks,
    )
    handler = RepositoryHandler(get_crawler(), _run(listed, source), source)
    url = f"{SITE}/blob/HEAD/a.md"
    request = Request(url, meta={"attempt": VisitAttempt(Page(1, url, "", 0))})

    if is_missing:
        assert asyncio.run(handler.download_request(request)).status == 404
    else:
        with pytest.raises(StoreAwayError, match="404"):
            asyncio.run(handler.download_request(request))


def _run(listed: SimpleNamespace, source: GithubSource) -> Any:
    return SimpleNamespace(listed=listed, source=source)


@pytest.mark.parametrize(
    ("status", "sent", "judged"),
    [
        (200, {}, (200, None)),
        (503, {"Retry-After": "7"}, (503, b"7")),
        (500, {"Server": "x"}, (500, None)),
        (408, {}, (408, None)),
        (425, {}, (425, None)),
        (429, {"Retry-After": "7"}, (429, b"7")),
        (403, {"X-RateLimit-Remaining": "0"}, (429, b"60")),
        (403, {}, None),
        (401, {}, None),
        (404, {}, None),
        (301, {"Location": "https://evil.example/"}, None),
    ],
)
def test_an_answer_of_the_raw_origin_is_a_file_or_a_passing_fault_or_none_of_the_page(
    status: int, sent: dict[str, str], judged: tuple[int, bytes | None] | None
):
    answer = Response(f"{SITE}/raw", status=status, headers=sent, body=b"words")
    given: Any = (None, SITE, answer, {})  # it needs nothing of the handler
    if judged is None:
        with pytest.raises(StoreAwayError, match=f"HTTP status {status} .* check GITHUB_RAW_URL"):
            RepositoryHandler._judged(*given)
        return
    found = RepositoryHandler._judged(*given)
    assert (found.status, found.headers.get("Retry-After")) == judged
    assert found.url == SITE
    assert found.body == (b"words" if status == 200 else b"")

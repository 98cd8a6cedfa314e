"""A site that is built anew has other ETags once, a host that rotates them in each answer."""

from dataclasses import replace
from itertools import count

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html


class RotatingSite(LabSite):
    """Sends another ETag with each answer while it ``rotates``."""

    def __init__(self) -> None:
        super().__init__("rotating.example")
        self.rotates = True
        self.stable: set[str] = set()  #: pages that keep their ETags
        self._tags = count()

    def _page(self, path: str) -> Page | None:
        page = super()._page(path)
        if page is None or not self.rotates or path in self.stable:
            return page
        return replace(page, etag=f'"rotates-{next(self._tags)}"')


def conditions(site: Site) -> dict[str, tuple[bool, bool]]:
    """Which validators each page was asked with since the log was cleared."""
    sent = {
        r.path: ("if-none-match" in r.headers, "if-modified-since" in r.headers)
        for r in site.log
        if r.path != "/robots.txt"
    }
    site.clear()
    return sent


def statuses(site: Site) -> set[int]:
    return {r.status for r in site.log if r.path != "/robots.txt"}


def build(site: Site, pages: int, edition: int, *, dated: bool = False, edited: int = 0) -> None:
    """Publish a build: every ETag is new, and every date; the first ``edited`` texts are, too."""
    date = f"Mon, 05 Jan 2026 10:00:0{edition} GMT" if dated else None

    def page(path: str, body: str) -> None:
        site.pages[path] = Page(body, etag=f'"{edition}-{path}"', last_modified=date)

    page("/", html("Home", *(f"/p{n}" for n in range(pages - 1))))
    for n in range(pages - 1):
        text = f"text {n} of edition {edition if n < edited else 1}"
        page(f"/p{n}", html(f"Page {n}", text=text))


@pytest.fixture
def rotating(crawl: LabCrawl) -> RotatingSite:
    site = RotatingSite()
    crawl.web.sites.append(site)
    return site


@pytest.mark.covers("M-10", "R0-97")
@pytest.mark.parametrize("dated", [False, True])
def test_a_rebuilt_site_is_asked_with_every_condition_in_that_run_and_the_next(
    site: Site, crawl: Crawl, dated: bool
):
    build(site, 200, 1, dated=dated)
    crawl(site.url("/"))
    build(site, 200, 2, dated=dated)
    site.clear()

    crawl(site.url("/"))

    assert statuses(site) == {200}
    assert list(conditions(site).values()) == [(True, dated)] * 200

    crawl(site.url("/"))

    assert statuses(site) == {304}
    assert list(conditions(site).values()) == [(True, dated)] * 200
    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert "unreliable" not in crawl.run("hosts").out


@pytest.mark.sqlite
@pytest.mark.covers("M-10")
def test_a_rebuild_that_edits_some_texts_costs_one_download(site: Site, crawl: Crawl):
    """A manual of 3,748 files, of which a build touched 172, on a tenth of the scale."""
    build(site, 375, 1)
    crawl(site.url("/"))
    build(site, 375, 2, edited=17)
    site.clear()

    crawl(site.url("/"))

    assert list(conditions(site).values()) == [(True, False)] * 375
    assert sorted(crawl.outcomes().values()) == ["modified"] * 17 + ["unchanged"] * 358

    crawl(site.url("/"))

    assert statuses(site) == {304}
    assert list(conditions(site).values()) == [(True, False)] * 375


@pytest.mark.sqlite
@pytest.mark.covers("M-10")
@pytest.mark.parametrize("dated", [False, True])
def test_a_site_that_is_rebuilt_before_each_run_is_never_asked_without_a_condition(
    site: Site, crawl: Crawl, dated: bool
):
    for edition in range(1, 6):
        build(site, 20, edition, dated=dated)
        site.clear()
        crawl(site.url("/"))
        assert statuses(site) == {200}
        sent = conditions(site)
        assert edition == 1 or all(any(headers) for headers in sent.values())
        assert dated or edition == 1 or set(sent.values()) == {(True, False)}

    crawl(site.url("/"))

    assert statuses(site) == {304}
    assert len(conditions(site)) == 20


@pytest.mark.covers("M-10")
def test_an_etag_that_rotates_is_left_out_so_that_the_date_counts(
    rotating: RotatingSite, crawl: Crawl
):
    build(rotating, 40, 1, dated=True)
    crawl(rotating.url("/"))
    rotating.clear()
    crawl(rotating.url("/"))
    assert list(conditions(rotating).values()) == [(True, True)] * 40, "it may be a rebuild"
    crawl(rotating.url("/"))
    third = list(conditions(rotating).values())
    assert set(third) == {(True, True), (False, True)}
    assert third.count((False, True)) >= 20, "two pages show it, the others profit"
    for _ in range(3):
        crawl(rotating.url("/"))

        assert statuses(rotating) == {304}
        assert list(conditions(rotating).values()) == [(False, True)] * 40
    assert "its ETags rotate" in crawl.run("hosts").out
    assert "If-None-Match" not in crawl.run("why", rotating.url("/p1")).out
    build(rotating, 40, 2, dated=True, edited=40)
    crawl(rotating.url("/"))
    assert sorted(set(crawl.outcomes().values())) == ["modified", "unchanged"]
    assert len(crawl.hits('"of edition 2"')) == 39


@pytest.mark.sqlite
@pytest.mark.covers("M-10")
def test_pages_that_keep_their_etags_do_not_hide_that_those_of_the_others_rotate(
    rotating: RotatingSite, crawl: Crawl
):
    """A file of one machine, and a page without a date, whose ETag is answered 304 in each run."""
    build(rotating, 40, 1, dated=True)
    rotating.stable = {"/", "/p7", "/p8"}
    rotating.pages["/p8"] = replace(rotating.pages["/p8"], last_modified=None)
    for _ in range(3):
        crawl(rotating.url("/"))
    for _ in range(2):
        rotating.clear()
        crawl(rotating.url("/"))

        assert statuses(rotating) == {304}
        sent = conditions(rotating)
        assert sent.pop("/p8") == (True, False)
        assert list(sent.values()) == [(False, True)] * 39


@pytest.mark.sqlite
@pytest.mark.covers("M-10")
def test_a_page_without_a_date_sends_its_etag_though_it_rotates(
    rotating: RotatingSite, crawl: Crawl
):
    """It costs nothing, and is how a host that stopped rotating its ETags is found."""
    build(rotating, 20, 1)
    for _ in range(4):
        rotating.clear()
        crawl(rotating.url("/"))

    assert list(conditions(rotating).values()) == [(True, False)] * 20


@pytest.mark.sqlite
@pytest.mark.covers("M-10")
def test_the_visit_after_a_sample_sends_the_etag_that_the_sample_brought(
    rotating: RotatingSite, crawl: Crawl
):
    """Nothing else would find a host that stopped rotating; the other pages cost no download."""
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0.1"
    build(rotating, 40, 1, dated=True)
    sampled: set[str] = set()
    for run in range(7):
        crawl(rotating.url("/"))
        sent = conditions(rotating)
        after = {path for path, told in sent.items() if told == (True, True)}
        assert run < 3 or after == sampled, run
        sampled = {path for path, told in sent.items() if told == (False, False)}
        assert run == 0 or 3 <= len(sampled) <= 5


@pytest.mark.covers("M-10")
def test_a_host_that_stopped_rotating_its_etags_is_believed_again(
    rotating: RotatingSite, crawl: Crawl
):
    build(rotating, 40, 1, dated=True)
    for _ in range(4):
        rotating.clear()
        crawl(rotating.url("/"))
    assert list(conditions(rotating).values()) == [(False, True)] * 40
    rotating.rotates = False
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0.1"
    for _ in range(5):  # a sample brings the new ETag, which is sent by the next visit
        crawl(rotating.url("/"))
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    crawl(rotating.url("/"))  # what is stored of the others are ETags of former answers
    rotating.clear()

    crawl(rotating.url("/"))

    assert statuses(rotating) == {304}
    assert list(conditions(rotating).values()) == [(True, True)] * 40
    assert "unreliable" not in crawl.run("hosts").out

"""Lists without end: left after twenty pages without news, in later runs, too."""

import pytest

from smartcrawl.model.documents import CUT, Link
from smartcrawl.registry.pack import unpack_stored_links
from smartcrawl.rules.traps import ENDLESS
from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html


class Endless(LabSite):
    """A list with 5 entries, whose last pages say that there is nothing, and link a next one."""

    entries, validators = 5, True

    def _page(self, path: str) -> Page | None:
        list_, _, number = path.partition("?page=")
        if list_ != "/list":
            return super()._page(path)
        page = int(number or 1)
        text = f"entry{page} of the list" if page <= self.entries else "no results"
        body = html("List", text=text).replace(
            "</body>", f'<a href="/list?page={page + 1}">n</a></body>'
        )
        return Page(body) if self.validators else Page(body, etag=None)


def numbers(crawl: Crawl) -> list[int]:
    return sorted(int(path.partition("=")[2]) for path in crawl.pages() if "=" in path)


def links(crawl: Crawl, url: str) -> list[Link]:
    """The stored links of a page."""
    read = "SELECT l.raw FROM links l JOIN record r USING (no) WHERE r.url"
    [(raw,)] = crawl.rows(f"{read} = '{url}'")
    return list(unpack_stored_links(raw))


@pytest.mark.parametrize("validators", [True, False])
@pytest.mark.covers("R4-15")
def test_a_list_without_end_is_left_and_stays_so(crawl: LabCrawl, validators: bool):
    crawl.web.sites[:] = [site := Endless()]
    site.validators = validators
    site.pages["/"] = html("Home", "/list", "/about")
    site.pages["/about"] = html("About")
    result = crawl(site.url("/"))

    last = numbers(crawl)[-1]
    assert last == site.entries + 20
    [run] = crawl.runs()
    assert run["complete"]
    [note] = run["notes"]
    assert note.startswith(f"endless: 1 address, {site.url(f'/list?page={last + 1}')}, ")
    assert "excluded_patterns = ['/list[?]page=(" in note
    assert "left out: endless: 1 address" in result.out
    assert crawl.hits('"no results"') == ["/list?page=6"]
    assert len(crawl.hits("entry5")) == 1

    crawl(site.url("/"))
    assert numbers(crawl)[-1] == last
    assert crawl.runs()[0]["notes"] == [note]
    assert crawl.runs()[0]["complete"]

    site.entries = last  # they have entries now
    crawl(site.url("/"))
    assert numbers(crawl)[-1] > last
    assert len(crawl.hits(f"entry{last}")) == 1


def test_a_last_page_with_a_new_link_goes_on(crawl: LabCrawl):
    """The twentieth page without entries has one."""
    crawl.web.sites[:] = [site := Endless()]
    site.pages["/"] = html("Home", "/list")
    site.pages["/more"] = html("More")
    plain = site._page

    def with_link(path: str) -> Page | None:
        page = plain(path)
        if path == f"/list?page={site.entries + 20}" and isinstance(page, Page):
            return Page(str(page.body).replace("</body>", '<a href="/more">n</a></body>'))
        return page

    site._page = with_link
    crawl(site.url("/"))

    assert "/more" in crawl.pages()
    assert numbers(crawl)[-1] > site.entries + 20


def test_a_page_behind_the_end_that_another_page_names_is_an_ordinary_link(crawl: LabCrawl):
    crawl.web.sites[:] = [site := Endless()]
    site.validators = False
    site.pages["/"] = html("Home", "/list")
    crawl(site.url("/"))
    last = f"/list?page={site.entries + 20}"
    next_ = site.url(f"/list?page={site.entries + 21}")
    assert links(crawl, site.url(last)) == [Link(next_, ENDLESS, CUT, False)]

    site.pages["/"] = html("Home", "/list", next_)
    crawl(site.url("/"))

    assert links(crawl, site.url(last)) == [Link(next_, "n", "hyperlink", False)]


def test_pages_that_a_list_names_are_no_chain_however_alike_they_are(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", *(f"/p/{n}" for n in range(30)))
    for n in range(30):
        body = html("Product", text="not available")
        link = f'<a href="/p/{n + 30}">r</a><a href="/p/{(n + 1) % 30}">r</a></body>'
        site.pages[f"/p/{n}"] = body.replace("</body>", link)
        site.pages[f"/p/{n + 30}"] = html(f"Product {n}")
    crawl(site.url("/"))

    assert len(crawl.pages()) == 61
    assert len(crawl.hits('"not available"')) == 1

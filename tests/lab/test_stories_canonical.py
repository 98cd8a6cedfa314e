"""Pages that ask to be shown elsewhere, or not at all."""

from dataclasses import replace

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import LONG, Story
from tests.site_server import Page, Site, html

NOINDEX = '<meta name="robots" content="noindex">'


def names(url: str) -> str:
    """Head of a page that names another as canonical."""
    return f'<link rel="canonical" href="{url}">'


@pytest.mark.covers("R4-23", "R4-37", "RD-02", "RD-11", "U-03", "U-07", "R4-28")
@pytest.mark.parametrize("how", ["meta", "header"])
def test_noindex_hides_a_page_and_keeps_its_links_until_it_is_lifted(
    site: Site, crawl: Crawl, how: str
):
    story = Story(site, crawl)
    story.home("/page")
    story.page("/page", "/page/child", text="treasure in the attic")
    story.page("/page/child", text="the attic stairs")
    story.run()
    first = story["/page"]
    allowed = site.pages["/page"]
    assert isinstance(allowed, Page)
    if how == "meta":
        forbidden = Page(html("/page", "/page/child", text="treasure in the attic", head=NOINDEX))
    else:
        forbidden = replace(allowed, headers={"X-Robots-Tag": "noindex"})
    site.pages["/page"] = forbidden

    for _ in range(3):
        story.run()

        page = story["/page"]
        assert (page["lastOutcome"], page["status"]) == ("excluded", "Crawled")
        assert page["effectiveStatus"] == 406
        assert page["lostCount"] == 0
        assert story.asked("/page") == [1]
        assert crawl.hits("treasure") == []
        assert story.words("/page/child") == ["unchanged"]
    assert story.removed() == {"/page": "not acceptable"}
    assert len(crawl.rows("SELECT * FROM evidence")) == 1
    site.pages["/page"] = allowed

    story.run()

    page = story["/page"]
    assert (page["lastOutcome"], page["status"]) == ("new", "Indexed")
    assert page["firstSeen"] == first["firstSeen"]
    assert crawl.hits("treasure") == ["/page"]
    assert story.words("/page/child") == ["unchanged"]


@pytest.mark.covers("U-07", "U-02", "R4-37")
def test_noindex_on_a_304_counts(site: Site, crawl: Crawl):
    story = Story(site, crawl)
    story.home("/page")
    story.page("/page", text="treasure in the attic")
    story.run()
    page = site.pages["/page"]
    assert isinstance(page, Page)
    site.pages["/page"] = replace(page, headers={"X-Robots-Tag": "noindex"})

    story.run()

    assert [r.status for r in site.log if r.path == "/page"] == [304]
    assert story.words("/page") == ["excluded"]
    assert crawl.hits("treasure") == []
    assert story.removed() == {"/page": "not acceptable"}


@pytest.mark.covers("R4-37", "U-07")
def test_a_page_that_becomes_406_is_removed_and_comes_back(site: Site, crawl: Crawl):
    story = Story(site, crawl)
    story.home("/page")
    story.page("/page", text="treasure in the attic")
    story.run()
    healthy = site.pages["/page"]
    story.answers(406, "/page")

    story.run()

    assert (story["/page"]["status"], story.words("/page")) == ("Crawled", ["excluded"])
    assert crawl.hits("treasure") == []
    assert story.removed() == {"/page": "not acceptable"}
    site.pages["/page"] = healthy

    story.run()

    assert story.words("/page") == ["new"]
    assert crawl.hits("treasure") == ["/page"]


@pytest.mark.covers("M-20", "R0-18")
def test_a_first_crawl_downloads_an_alias_once_and_says_nothing_of_a_removal(
    site: Site, crawl: Crawl
):
    """No page stood before; one that names a canonical page later was removed."""
    site.pages["/"] = html("Home", "/print", "/page", "/edited")
    site.pages["/page"] = html("Page", text="treasure in the attic")
    site.pages["/print"] = html("Printed", text="the attic, printed", head=names("/page"))
    site.pages["/edited"] = html("Edited", text="jewels in the cellar")

    first = crawl(site.url("/"))

    assert "removed" not in first.out
    assert "undo" not in first.out
    assert crawl.pages()["/print"]["lastOutcome"] == "redirected"
    assert crawl.hits("attic") == ["/page"]
    site.clear()
    crawl(site.url("/"))
    assert [request.status for request in site.log if request.path == "/print"] == [304]
    site.pages["/edited"] = html("Edited", text="jewels in the cellar", head=names("/page"))

    third = crawl(site.url("/"))

    assert "1 removed. To bring it back:" in third.out
    assert crawl.hits("jewels") == []


@pytest.mark.covers("M-20", "R0-18", "R4-13", "RD-02", "RD-10")
def test_an_alias_stands_aside_as_long_as_its_canonical_page_is_indexed(site: Site, crawl: Crawl):
    story = Story(site, crawl, LOST_THRESHOLD=2)
    story.home("/print", "/page", "/itself")
    story.page("/page", text="treasure in the attic")
    site.pages["/print"] = html(
        "Printed", "/print/child", text="treasure in the attic, printed", head=names("/page")
    )
    story.page("/print/child", text="the attic stairs")
    site.pages["/itself"] = html("Itself", text="jewels", head=names("/itself"))

    for words in (["new", "redirected", "new"], ["unchanged", "redirected", "unchanged"]):
        story.run()

        assert story.words("/page", "/print", "/itself") == words
        assert story["/print"]["status"] == "Crawled"
        assert story["/print"]["canonicalUrl"] == site.url("/page")
        assert crawl.hits("treasure") == ["/page"]
        assert story.asked("/page", "/print", "/print/child") == [1, 1, 1]
    story.answers(404, "/page")

    story.run()

    assert story.words("/page", "/print") == ["lost", "redirected"]
    assert crawl.hits("treasure") == ["/page"]

    story.run()  # /page is gone by its end
    story.run()

    assert story["/page"]["status"] == "Gone"
    assert story["/print"]["status"] == "Indexed"
    assert crawl.hits("treasure") == ["/print"]
    assert story.words("/print/child") == ["unchanged"]
    story.page("/page", text="treasure in the attic")

    story.run()
    story.run()

    assert story["/print"]["status"] == "Crawled"
    assert crawl.hits("treasure") == ["/page"]
    assert story.removed() == {"/page": "gone", "/print": "canonical"}


@pytest.mark.covers("M-20", "U-04")
def test_a_held_page_that_names_another_goes_only_when_that_is_indexed(
    site: Site, other: Site, crawl: Crawl
):
    other.pages["/"] = html("Elsewhere")
    story = Story(site, crawl, others=20)
    targets = {
        "/to/fine": "/fine",
        "/to/404": "/404",
        "/to/503": "/503",
        "/to/noindex": "/noindex",
        "/to/away": other.url("/"),
        "/to/was": "/was",  # held, but not seen in this run
        "/to/moved": "/moved",
        "/circle/a": "/circle/b",
        "/circle/b": "/circle/a",
    }
    story.home(*targets, "/fine", "/was")
    story.page("/was", text="a page that was fine")
    story.page("/fine", text="a fine page")
    for path in targets:
        story.page(path, text=f"treasure of {path}")
    story.run()
    assert len(crawl.hits("treasure")) == 9
    for path, target in targets.items():
        site.pages[path] = html(path, text=f"treasure of {path}", head=names(target))
    story.answers(503, "/503", "/was")
    site.pages["/noindex"] = html("No", head=NOINDEX)
    site.pages["/moved"] = Page(redirect="/fine")

    for _ in range(2):
        story.run()

        assert story.removed() == dict.fromkeys(["/to/fine", "/to/moved"], "canonical")
        assert story.words("/to/fine", "/to/moved") == ["redirected", "redirected"]
        stays = sorted(targets.keys() - {"/to/fine", "/to/moved"})
        assert crawl.hits("treasure") == stays
        assert {story[path]["status"] for path in stays} == {"Indexed"}
    assert other.log == []


@pytest.mark.covers("M-20", "R1-02")
def test_a_canonical_that_too_many_pages_name_is_not_believed(site: Site, crawl: Crawl):
    story = Story(site, crawl, others=10)
    paths = [f"/page/{n}" for n in range(30)]
    story.home(*paths)
    for path in paths:
        story.page(path, text=f"treasure of {path}")
    story.run()
    for path in paths:
        site.pages[path] = html(path, text=f"treasure of {path}", head=names("/"))

    for _ in range(2):
        result = story.run()

        assert site.url("/") in result.out + result.err
        assert "canonical" in result.out + result.err
        assert {story[path]["status"] for path in paths} == {"Indexed"}
        assert len(crawl.hits("treasure")) == 30
        assert story.removed() == {}


@pytest.mark.covers("M-20", "M-23", "R4-13", "R4-14")
def test_equal_pages_that_name_one_of_them_show_under_that_one(site: Site, crawl: Crawl):
    """One body under many addresses, with the link that says which is the right one."""
    story = Story(site, crawl, others=20, LOST_THRESHOLD=1)
    body = html("Whales", text=LONG, head=names("/the-sea-and-its-animals"))
    paths = ("/w", "/w?sort=up", "/w?sort=down", "/the-sea-and-its-animals")
    story.home(*paths)
    site.pages |= dict.fromkeys(paths, body)

    for _ in range(2):
        story.run()

        assert crawl.hits("whales") == ["/the-sea-and-its-animals"]
        assert story["/the-sea-and-its-animals"]["duplicateOf"] is None
        assert story.words(*paths[:3]) == ["redirected"] * 3
    story.answers(404, "/the-sea-and-its-animals")
    story.run()
    story.run()

    assert story["/the-sea-and-its-animals"]["status"] == "Gone"
    assert len(crawl.hits("whales")) == 1

"""Pages that today's robots.txt or today's scope leaves out."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story
from tests.site_server import Page, Site


def robots(*disallowed: str) -> Page:
    lines = "".join(f"Disallow: {path}\n" for path in disallowed)
    return Page(f"User-agent: *\n{lines}", content_type="text/plain", etag=None)


def begin(site: Site, crawl: Crawl, **settings: object) -> Story:
    """A site with a private part, which leads to an open page, was crawled."""
    story = Story(site, crawl, **settings)
    story.home("/private/a", "/private/b")
    story.page("/private/a", "/open", text="treasure of a")
    story.page("/private/b", "/private/a", text="treasure of b")
    story.page("/open", text="treasure in the open")
    return story


PRIVATE = ("/private/a", "/private/b")


@pytest.mark.covers("M-25", "R4-08", "R4-17", "R4-18", "RD-11", "U-15", "U-18")
def test_disallowed_pages_age_like_orphans_without_being_asked(site: Site, crawl: Crawl):
    story = begin(site, crawl, ORPHAN_THRESHOLD=2)
    story.run()
    first = story["/private/a"]
    site.pages["/robots.txt"] = robots("/private/")

    story.run()

    assert story.words(*PRIVATE, "/open") == ["excluded", "excluded", "orphaned"]
    assert [story[path]["status"] for path in PRIVATE] == ["OutOfScope"] * 2
    assert [story[path]["orphanAge"] for path in (*PRIVATE, "/open")] == [1, 1, 1]
    assert len(crawl.hits("treasure")) == 3
    site.pages["/robots.txt"] = robots("/private/b")

    story.run()

    assert story.words(*PRIVATE, "/open") == ["unchanged", "deleted", "unchanged"]
    assert story["/private/a"]["orphanAge"] == 0
    assert story.asked(*PRIVATE, "/open") == [1, 0, 1]
    assert story.bare("/private/b")
    assert story["/private/b"]["status"] == "OutOfScope"
    assert crawl.hits("treasure") == ["/open", "/private/a"]
    assert story.removed() == {"/private/b": "excluded"}

    for word in ("excluded", "deleted"):
        site.pages["/robots.txt"] = robots("/private/")
        story.run()
        assert story.words("/private/a") == [word]
        assert story.asked(*PRIVATE) == [0, 0]
    assert story.words("/private/b") == ["excluded"]  # reached, not asked, nothing held
    assert story.words("/open") == ["deleted"]  # only the private part led there
    assert story.asked("/open") == [1]
    assert crawl.hits("treasure") == []
    assert story.removed() == {
        "/private/a": "excluded", "/private/b": "excluded", "/open": "orphan"
    }  # fmt: skip
    site.pages["/robots.txt"] = robots()

    story.run()

    assert story.words(*PRIVATE, "/open") == ["new"] * 3
    assert story.conditional("/private/a") == [False]
    assert story["/private/a"]["firstSeen"] == first["firstSeen"]
    assert len(crawl.hits("treasure")) == 3


@pytest.mark.covers("M-25", "M-28", "R4-08", "R4-17", "R4-18", "M-02", "U-15", "U-18")
def test_pages_that_left_the_scope_age_without_being_asked_and_return(site: Site, crawl: Crawl):
    story = begin(site, crawl, ORPHAN_THRESHOLD=2)
    story.source = "docs"
    declared = f"[sources.docs]\nseeds = ['{site.url('/')}']\n"
    crawl.declare(declared)
    story.run()
    crawl.declare(declared + "excluded_patterns = ['/private/']\n")

    story.run()

    assert story.words(*PRIVATE) == ["excluded", "excluded"]
    assert story.words("/open") == ["orphaned"]
    assert [story[path]["orphanAge"] for path in PRIVATE] == [1, 1]
    assert len(crawl.hits("treasure")) == 3
    crawl.declare(declared)

    story.run()

    assert story.words(*PRIVATE, "/open") == ["unchanged"] * 3
    crawl.declare(declared + "max_depth = 1\nexcluded_patterns = ['/private/b']\n")

    story.run()

    assert story.words("/private/a") == ["unchanged"]
    assert len(crawl.hits("treasure")) == 3

    story.run()

    assert story.words(*PRIVATE, "/open") == ["unchanged", "deleted", "deleted"]
    assert story.asked(*PRIVATE, "/open") == [1, 0, 0]
    assert [story[path]["status"] for path in ("/private/b", "/open")] == ["OutOfScope"] * 2
    assert crawl.hits("treasure") == ["/private/a"]
    assert story.removed() == {"/private/b": "excluded", "/open": "excluded"}
    crawl.declare(declared)

    story.run()

    assert story.words("/private/b", "/open") == ["new", "new"]
    assert len(crawl.hits("treasure")) == 3


@pytest.mark.covers("M-25", "U-15")
def test_with_the_policy_remove_they_go_with_the_next_sweep(site: Site, crawl: Crawl):
    story = begin(site, crawl, OUT_OF_SCOPE_POLICY="remove")
    story.source = "docs"
    declared = f"[sources.docs]\nseeds = ['{site.url('/')}']\n"
    crawl.declare(declared)
    story.run()
    crawl.declare(declared + "excluded_patterns = ['/private/b']\n")
    site.pages["/robots.txt"] = robots("/private/a")

    story.run()

    assert story.words(*PRIVATE) == ["deleted", "deleted"]
    assert story.asked(*PRIVATE) == [0, 0]
    assert story.words("/open") == ["orphaned"]  # that is another matter
    assert [story[path]["status"] for path in PRIVATE] == ["OutOfScope"] * 2
    assert crawl.hits("treasure") == ["/open"]
    assert story.removed() == dict.fromkeys(PRIVATE, "excluded")
    site.pages["/robots.txt"] = robots()
    crawl.declare(declared)

    story.run()

    assert story.words(*PRIVATE, "/open") == ["new", "new", "unchanged"]
    assert len(crawl.hits("treasure")) == 3
    site.pages["/robots.txt"] = Page("later", status=503)  # not knowing is not being excluded
    story.alter("UPDATE robots SET fetched_at = 0")

    story.run(expect=3)

    assert story.words(*PRIVATE) == ["failed", "failed"]
    assert len(crawl.hits("treasure")) == 3


@pytest.mark.covers("M-38", "R4-08")
def test_a_page_of_two_sources_is_removed_from_one_of_them(site: Site, crawl: Crawl):
    story = begin(site, crawl, ORPHAN_THRESHOLD=1)
    one = f"[sources.one]\nseeds = ['{site.url('/')}']\n"
    two = f"[sources.two]\nseeds = ['{site.url('/')}']\n"
    crawl.declare(one + two)
    crawl(settings=story.settings)
    crawl.declare(one + "excluded_patterns = ['/private/']\n" + two)

    crawl(settings=story.settings)

    shown = {name: len(crawl.search("treasure", "--source", name)) for name in ("one", "two")}
    assert shown == {"one": 0, "two": 3}
    pages = crawl.pages(source="two")
    assert {pages[path]["lastOutcome"] for path in (*PRIVATE, "/open")} == {"unchanged"}
    pages = crawl.pages(source="one")
    assert {pages[path]["lastOutcome"] for path in (*PRIVATE, "/open")} == {"deleted"}
    crawl.declare(one)  # the other is not declared any more: it stays as it is

    result = crawl(settings=story.settings)

    assert "two" in result.err
    assert len(crawl.search("treasure", "--source", "two")) == 3
    assert len(crawl.search("treasure", "--source", "one")) == 3

"""Pages with equal content: whoever leaves, the text stays findable, and under one address."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import LONG, Story
from tests.site_server import Page, Site, html

ALIKE = ("/a", "/bb", "/ccc")  # the shortest address comes first
WHALES = html("Whales", text=LONG)
ELEPHANTS = html("Elephants", text=LONG.replace("whales", "elephants"))
GIRAFFES = html("Giraffes", text=LONG.replace("whales", "giraffes"))


def begin(site: Site, crawl: Crawl, **settings: object) -> Story:
    """Three pages with equal content were crawled."""
    story = Story(site, crawl, **settings)
    story.home(*ALIKE)
    site.pages |= dict.fromkeys(ALIKE, WHALES)
    story.run()
    assert story.words(*ALIKE) == ["new", "clone", "clone"]
    assert originals(story) == [None, "/a", "/a"]
    assert crawl.hits("whales") == ["/a"]
    return story


def originals(story: Story) -> list[str | None]:
    """`duplicateOf` of each page, as a path."""
    urls = [story[path]["duplicateOf"] for path in ALIKE]
    return [url and url.removeprefix(story.site.url("")) for url in urls]


@pytest.mark.covers("R4-13", "R4-14", "R4-15", "R4-16", "M-23", "RD-10", "U-05", "R4-23")
def test_an_edited_original_hands_over_and_an_edited_clone_joins_another(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    site.pages["/a"] = ELEPHANTS

    story.run()

    assert story.words(*ALIKE) == ["modified", "unchanged", "unchanged"]
    assert originals(story) == [None, None, "/bb"]
    assert [r.status for r in site.log if r.path in ALIKE[1:]] == [304, 304]  # taken over as it is
    assert (crawl.hits("whales"), crawl.hits("elephants")) == (["/bb"], ["/a"])
    site.pages["/ccc"] = ELEPHANTS

    story.run()

    assert story.words(*ALIKE) == ["unchanged", "unchanged", "clone"]
    assert originals(story) == [None, None, "/a"]
    assert (crawl.hits("whales"), crawl.hits("elephants")) == (["/bb"], ["/a"])
    site.pages["/a"] = GIRAFFES

    story.run()

    assert story.words(*ALIKE) == ["modified", "unchanged", "unchanged"]
    assert originals(story) == [None, None, None]
    assert [crawl.hits(word) for word in ("whales", "elephants", "giraffes")] == [
        ["/bb"], ["/ccc"], ["/a"]
    ]  # fmt: skip
    site.pages["/a"] = site.pages["/ccc"] = WHALES

    story.run()  # who held it before is the original, though /a is shorter

    assert story.words(*ALIKE) == ["clone", "unchanged", "clone"]
    assert originals(story) == ["/bb", None, "/bb"]
    assert [crawl.hits(word) for word in ("whales", "elephants", "giraffes")] == [["/bb"], [], []]
    assert story.removed() == {}


@pytest.mark.covers("R4-04", "R4-13", "R4-14", "M-23", "RD-10", "U-09", "R4-27")
def test_a_removed_original_hands_over_to_the_living(site: Site, crawl: Crawl):
    story = begin(site, crawl, LOST_THRESHOLD=2)
    story.answers(404, "/a")

    story.run()

    assert story.words(*ALIKE) == ["lost", "unchanged", "unchanged"]
    assert originals(story) == [None, None, "/bb"]  # a lost page is never a clone
    lost = {hit["url"]: hit["lost"] for hit in crawl.search("whales")}
    assert lost == {site.url("/a"): True, site.url("/bb"): False}  # it keeps the entry it had

    story.run()

    assert story.words(*ALIKE) == ["gone", "unchanged", "unchanged"]
    assert originals(story) == [None, None, "/bb"]
    assert crawl.hits("whales") == ["/bb"]
    assert story.asked("/bb", "/ccc") == [1, 1]
    assert story.conditional("/bb") == [True]
    story.answers(404, "/ccc")  # a clone that is lost has no entry of its own

    story.run()

    assert story["/ccc"]["lostCount"] == 1
    assert crawl.hits("whales") == ["/bb"]
    story.answers(503, "/bb")

    story.run()

    assert story.words(*ALIKE) == ["gone", "failed", "gone"]
    assert crawl.hits("whales") == ["/bb"]
    assert story.removed() == {"/a": "gone", "/ccc": "gone"}
    site.pages |= dict.fromkeys(ALIKE, WHALES)

    story.run()

    assert story.words(*ALIKE) == ["clone", "unchanged", "clone"]
    assert originals(story) == ["/bb", None, "/bb"]
    assert crawl.hits("whales") == ["/bb"]


@pytest.mark.covers("R4-04", "R4-14", "M-23")
def test_when_all_are_lost_the_text_is_still_found(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    story.answers(404, *ALIKE)

    for _ in range(2):
        story.run()

        assert story.words(*ALIKE) == ["lost"] * 3
        assert crawl.hits("whales") == ["/a"]
    site.pages["/ccc"] = WHALES

    story.run()

    assert story.words(*ALIKE) == ["gone", "gone", "unchanged"]
    assert originals(story) == [None, None, None]
    assert crawl.hits("whales") == ["/ccc"]


@pytest.mark.covers("R1-44", "R4-08", "R4-14", "M-23", "RD-10", "U-18")
def test_an_unlinked_original_stays_the_original_until_it_goes(site: Site, crawl: Crawl):
    story = begin(site, crawl, ORPHAN_THRESHOLD=2)
    story.home("/bb", "/ccc")

    story.run()

    assert story.words(*ALIKE) == ["orphaned", "unchanged", "unchanged"]
    assert originals(story) == [None, "/a", "/a"]
    assert crawl.hits("whales") == ["/a"]

    story.run()

    assert story.words(*ALIKE) == ["deleted", "unchanged", "unchanged"]
    assert originals(story) == [None, None, "/bb"]
    assert crawl.hits("whales") == ["/bb"]
    assert story.removed() == {"/a": "orphan"}
    site.pages["/bb"] = Page(redirect="/ccc")  # and one that moves to its own clone

    story.run()

    assert story.words(*ALIKE) == ["deleted", "redirected", "unchanged"]
    assert originals(story) == [None, None, None]
    assert crawl.hits("whales") == ["/ccc"]
    assert story.removed() == {"/a": "orphan", "/bb": "redirect"}
    assert crawl.rows("SELECT count(*) FROM record WHERE duplicate_of IS NOT NULL") == [(0,)]


@pytest.mark.covers("R4-04", "R4-14", "M-23", "RD-10")
@pytest.mark.parametrize("leaves", ["gone", "unlinked", "moved"])
def test_when_the_original_leaves_lost_clones_the_text_is_still_found(
    site: Site, crawl: Crawl, leaves: str
):
    story = begin(site, crawl, ORPHAN_THRESHOLD=1)
    story.answers(403, "/bb", "/ccc")
    story.run()
    assert story.words(*ALIKE) == ["unchanged", "lost", "lost"]
    assert crawl.hits("whales") == ["/a"]
    match leaves:
        case "gone":
            story.answers(404, "/a")
        case "unlinked":
            story.home("/bb", "/ccc")
        case "moved":
            site.pages["/a"] = Page(redirect="/other/1")

    story.run(lost_threshold=1)

    assert story.bare("/a")
    [hit] = crawl.search("whales")
    assert hit["lost"] is True
    assert hit["url"] in {site.url("/bb"), site.url("/ccc")}
    site.pages["/ccc"] = WHALES

    story.run()

    assert story["/ccc"]["status"] == "Indexed"
    assert {hit["url"]: hit["lost"] for hit in crawl.search("whales")}[site.url("/ccc")] is False

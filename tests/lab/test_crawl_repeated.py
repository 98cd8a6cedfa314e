"""One text in place of several pages: a wall, an error or a notice that a server answers for all.

ADR 93 has the rule; a page that lost nearly all of its text is in tests/lab/test_crawl_collapse.py.
"""

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

DUE = {"RECRAWL_POLICY": "due"}

WALL = "We value your privacy. We and our partners store cookies, to measure and to improve. " * 4
PATHS = [f"/page/{n}" for n in range(8)]


def house(site: Site, *, pages: int = 8, words: int = 60) -> None:
    """Serve a home page, and pages that each have a text of their own."""
    paths = PATHS[:pages]
    site.pages["/"] = html("Home", *paths, text="About the lamps of this house. " * 40)
    for n, path in enumerate(paths):
        site.pages[path] = html(f"P{n}", text=f"Treasure of {n} in words. " * words)


def wall(site: Site, text: str, *paths: str) -> None:
    for path in paths or list(site.pages):
        site.pages[path] = html("Consent", *PATHS, text=text)


def treasures(crawl: Crawl) -> int:
    return len(crawl.hits("treasure"))


def assert_treasures_left(site: Site, crawl: Crawl, *counts: int) -> None:
    """Crawl once for each count: so many treasures are found then, and no run is complete before.

    The last count is 0: that run takes the new text, and is complete.
    """
    for left in counts:
        crawl(site.url("/"), expect=3 if left else 0)
        assert treasures(crawl) == left


@pytest.mark.parametrize("words", [60, 15], ids=["long", "short"])
def test_a_wall_with_one_text_replaces_one_page_and_no_other(site: Site, crawl: Crawl, words: int):
    """It has more than a tenth of each text, and the pages may be shorter than 500 characters."""
    house(site, words=words)
    crawl(site.url("/"))
    wall(site, WALL)
    result = crawl(site.url("/"), expect=3)  # most of the source was not seen

    assert crawl.outcomes()["/"] == "modified", "the first page looks like an edit"
    assert [crawl.outcomes()[path] for path in PATHS] == ["failed"] * 8
    assert treasures(crawl) == 8
    assert "not used: collapsed: 8 pages" in result.out

    house(site, words=words)
    crawl(site.url("/"))
    assert set(crawl.outcomes().values()) <= {"modified", "unchanged"}
    assert treasures(crawl) == 8
    assert crawl.hits("privacy") == []


def test_the_third_run_takes_the_text_that_all_pages_have_for_good(site: Site, crawl: Crawl):
    house(site)
    crawl(site.url("/"))
    wall(site, WALL)
    assert_treasures_left(site, crawl, 8, 8, 0)
    assert crawl.outcomes()["/page/3"] == "clone"


def test_a_wall_below_the_title_of_each_page_is_one_text(site: Site, crawl: Crawl):
    """The template of the site shows the page's own title above it."""
    house(site)
    crawl(site.url("/"))
    for path in site.pages:
        site.pages[path] = html(f"Lamps at {path}", *PATHS, text=WALL)
    assert_treasures_left(site, crawl, 8, 8, 0)
    assert len(crawl.hits("privacy")) == 9


def test_a_few_pages_that_collapse_to_one_text_below_their_titles_are_no_edits(
    site: Site, crawl: Crawl
):
    house(site, words=200)
    crawl(site.url("/"))
    for path, name in zip(PATHS[:3], ("Ann", "Ben", "Cleo"), strict=True):
        site.pages[path] = html(f"Lamps of {name}", *PATHS, text=WALL)
    crawl(site.url("/"), expect=3)
    assert [crawl.outcomes()[path] for path in PATHS[:3]] == ["failed"] * 3
    assert treasures(crawl) == 8


def test_pages_with_one_text_below_several_titles_may_change_together(site: Site, crawl: Crawl):
    """Variants of an article have one description, whose price changes."""
    site.pages["/"] = html("Home", *PATHS[:4], text="About the lamps of this house. " * 40)

    def describe(price: str) -> None:
        for path in PATHS[:4]:
            text = f"A lamp of brass for the table, at {price} of gold each. " * 8
            site.pages[path] = html(f"Lamp {path}", text=text)

    describe("nine pieces")
    crawl(site.url("/"))
    describe("ten crowns")
    crawl(site.url("/"))
    assert {crawl.outcomes()[path] for path in PATHS[:4]} == {"modified"}


def test_a_title_may_change_above_a_text_that_other_pages_have(site: Site, crawl: Crawl):
    house(site, pages=2)
    for shade in ("red", "blue"):
        for path in PATHS[:2]:
            site.pages[path] = html(f"Lamp {path} in {shade}", text=WALL)
        crawl(site.url("/"))
    assert {crawl.outcomes()[path] for path in PATHS[:2]} == {"modified"}


def test_a_short_text_has_to_come_in_place_of_three_pages(site: Site, crawl: Crawl):
    """Two short texts may be equal by chance, such as those of two lamps that are sold out."""
    house(site, words=15)
    crawl(site.url("/"))
    wall(site, "Sold out. Come again.", *PATHS[:2])
    crawl(site.url("/"))
    assert sorted(crawl.outcomes()[path] for path in PATHS[:2]) == ["clone", "modified"]

    house(site, words=15)
    crawl(site.url("/"))
    wall(site, "Back soon.", *PATHS[:5])
    crawl(site.url("/"), expect=3)
    assert [crawl.outcomes()[path] for path in PATHS].count("failed") == 3


def test_pages_with_one_text_may_change_together(site: Site, crawl: Crawl):
    """A page under two addresses is edited in both places; so are two that had other times."""
    site.pages["/"] = html("Home", "/a", "/b", "/c", "/d", text="About the lamps. " * 40)
    for path in ("/a", "/b"):
        site.pages[path] = html("A", text="One lamp glows here. " * 30)
    for n, path in enumerate(("/c", "/d")):
        site.pages[path] = html("C", text="Another lamp glows here. " * 30 + f"Seen {n} times.")
    crawl(site.url("/"))
    for path in ("/a", "/b"):
        site.pages[path] = html("A", text="One lamp glows there. " * 30)
        site.pages["/c"] = site.pages["/d"] = html(
            "C", text="Another lamp glows here. " * 30 + "Seen 7 times."
        )
    crawl(site.url("/"))

    found = crawl.outcomes()
    assert sorted((found["/a"], found["/b"])) == ["clone", "modified"]
    assert sorted((found["/c"], found["/d"])) == ["clone", "modified"]


def test_an_ordered_page_is_taken_whatever_others_got(site: Site, crawl: Crawl):
    house(site)
    crawl(site.url("/"))
    wall(site, WALL)
    crawl(site.url("/"), force=1)
    assert treasures(crawl) == 0


def test_a_page_that_becomes_a_copy_of_one_that_stays_is_an_edit(site: Site, crawl: Crawl):
    house(site)
    crawl(site.url("/"))
    site.pages["/page/1"] = site.pages["/page/0"]
    crawl(site.url("/"))
    assert crawl.outcomes()["/page/1"] == "clone"


@pytest.mark.parametrize("count", [3, 4])
def test_up_to_three_pages_become_copies_of_one_that_stays(site: Site, crawl: Crawl, count: int):
    """They wait until the run knows that the page stays; four are as many as a wall has at once."""
    house(site)
    site.pages["/"] = html("Home", "/stays", *PATHS, text="About the lamps of this house. " * 40)
    site.pages["/stays"] = html("Stays", text=f"A word about glass. {WALL}")
    crawl(site.url("/"))
    copies = PATHS[1 : count + 1]
    for path in copies:
        site.pages[path] = site.pages["/stays"]
    crawl(site.url("/"), expect=None)

    outcomes = [crawl.outcomes()[path] for path in copies]
    assert outcomes.count("failed") == (0 if count == 3 else 3)
    assert outcomes.count("clone") == (3 if count == 3 else 1)
    assert crawl.rows("SELECT count(*) FROM collapse") == [(0,)]


def test_an_indexed_page_with_the_text_of_a_wall_does_not_turn_a_site_into_its_clones(
    site: Site, crawl: Crawl
):
    house(site)
    site.pages["/consent"] = html("Consent", *PATHS, text=WALL)
    site.pages["/"] = html("Home", "/consent", *PATHS, text="About the lamps of this house. " * 40)
    crawl(site.url("/"))
    wall(site, WALL)
    crawl(site.url("/"), expect=3)
    assert treasures(crawl) == 8


@pytest.mark.long
def test_in_a_large_run_very_few_pages_with_one_new_text_are_edits(site: Site, crawl: Crawl):
    """Their new links are followed and the old ones are not, as those of any other edit."""
    more = [f"/more{n}" for n in range(292)]
    house(site)
    site.pages["/"] = html("Home", *PATHS, *more)
    for n, path in enumerate(more):
        site.pages[path] = html(f"More {n}", text=f"plain {n}")
    site.pages[PATHS[1]] = html("P1", "/old", text="Treasure of 1 in words. " * 60)
    site.pages["/old"], site.pages["/fresh"] = html("Old"), html("Fresh", text="recent")
    crawl(site.url("/"))
    wall(site, WALL, *PATHS[:3])
    for path in PATHS[:3]:
        site.pages[path] = html("Sold", "/fresh", text=WALL)
    crawl(site.url("/"))

    assert sorted(crawl.outcomes()[path] for path in PATHS[:3]) == ["clone", "clone", "modified"]
    assert (crawl.outcomes()["/fresh"], crawl.outcomes()["/old"]) == ("new", "orphaned")
    assert len(crawl.hits("privacy")) == 1


@pytest.mark.parametrize("words", [200, 20], ids=["collapsed", "shrunk"])
@pytest.mark.parametrize("first", [200, 20], ids=["after collapsed", "after shrunk"])
def test_of_two_pages_with_one_new_text_the_second_is_never_an_edit(
    site: Site, crawl: Crawl, first: int, words: int
):
    """A collapsed page is an edit where it is alone among those that wait."""
    site.pages["/"] = html("Home", "/a", "/b", text="About the lamps of this house. " * 40)
    site.pages["/a"] = html("One", text="Treasure of a in many words. " * first)
    site.pages["/b"] = html("One", text="Treasure of b in many words. " * words)
    one = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    crawl(site.url("/"), settings=one)
    for path in ("/a", "/b"):
        site.pages[path] = html("One", text=WALL)
    crawl(site.url("/"), settings=one, expect=3)

    assert crawl.outcomes()["/b"] == "failed"
    assert crawl.outcomes()["/a"] == ("failed" if first == 200 else "modified")
    assert crawl.rows("SELECT count(*) FROM collapse") == [(0,)]


def test_after_a_wall_a_page_that_was_edited_meanwhile_is_taken(site: Site, crawl: Crawl):
    house(site)
    crawl(site.url("/"))
    wall(site, WALL)
    crawl(site.url("/"), expect=3)
    house(site)
    site.pages["/page/5"] = html("P5", text="Gold of five in words. " * 60)
    crawl(site.url("/"))
    assert crawl.outcomes()["/page/5"] == "modified"
    assert crawl.hits("gold") == ["/page/5"]


def test_a_short_text_that_stays_takes_no_further_page_in_the_second_run(site: Site, crawl: Crawl):
    """A page that got it in the first run speaks against each one that was withheld then."""
    house(site, words=15)
    crawl(site.url("/"))
    wall(site, "Back soon.", *PATHS)
    for _ in range(2):
        crawl(site.url("/"), expect=3)
        assert treasures(crawl) == 6


def test_pages_that_had_one_text_do_not_open_the_way_for_a_short_one(site: Site, crawl: Crawl):
    """Three pages that are still to be written are the first to get the text of an error."""
    house(site, words=15)
    for path in PATHS[:3]:
        site.pages[path] = html("Soon", text="This page is being written.")
    one = {"CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    crawl(site.url("/"), settings=one)
    wall(site, "We are sorry. Come again.", *PATHS)
    crawl(site.url("/"), settings=one, expect=3)
    assert treasures(crawl) == 4, "one of five, whose text was the second to be replaced"


def test_a_site_of_two_pages_waits_for_the_third_run_as_well(site: Site, crawl: Crawl):
    """The other page has the text since the last run, and alone would be an edit."""
    house(site, pages=1)
    crawl(site.url("/"))
    wall(site, WALL)
    assert_treasures_left(site, crawl, 1, 1, 0)


def test_a_run_that_found_another_error_is_none_that_found_the_text(site: Site, crawl: Crawl):
    """A server that is down answers 503 first, and with a notice then."""
    house(site)
    crawl(site.url("/"))
    for path in PATHS:
        site.pages[path] = Page("down", status=503)
    crawl(site.url("/"), settings={"RETRY_TIMES": 0}, expect=3)
    wall(site, WALL, *PATHS)
    assert_treasures_left(site, crawl, 7, 7, 0)


def test_due_crawls_take_the_text_after_as_many_days_as_daily_ones(site: Site, crawl: Crawl):
    """A page that failed is due again after ten minutes, and then after twenty."""
    house(site)
    crawl(site.url("/"))
    wall(site, WALL)
    crawl(site.url("/"), expect=3)
    for days, left in ((0, 8), (0, 8), (1, 8), (2, 0)):
        crawl.rows(f"UPDATE event SET at = at - {86_400 * days}")
        crawl.rows("UPDATE state SET next_visit = 0")
        crawl(site.url("/"), settings=DUE, expect=3 if left else 0)
        assert treasures(crawl) == left


def test_due_crawls_of_a_few_pages_each_are_one_run_together(site: Site, crawl: Crawl):
    """An hourly timer asks a page or two, and each of them would be the first with its text."""
    house(site)
    site.pages[PATHS[6]] = site.pages[PATHS[7]] = html("Two", text="Treasure of two houses. " * 60)
    crawl(site.url("/"))
    wall(site, WALL, *PATHS[:6])
    site.pages[PATHS[6]] = site.pages[PATHS[7]] = html("Two", text="Treasure of two candles. " * 60)
    for path in PATHS:
        page = f"SELECT no FROM record WHERE url LIKE '%{path}'"
        crawl.rows(f"UPDATE state SET next_visit = 0 WHERE no IN ({page})")
        crawl(site.url("/"), settings=DUE, expect=None)

    found = crawl.pages()
    assert [found[path]["status"] for path in PATHS[:6]] == ["Indexed", *["Error"] * 5]
    assert treasures(crawl) == 5 + 1, "the first page looks like an edit"
    assert [found[path]["status"] for path in PATHS[6:]] == ["Indexed"] * 2
    assert len(crawl.hits("candles")) == 1, "a page under two addresses is edited in both places"


def test_the_days_of_another_error_are_none_of_those_that_found_the_text(site: Site, crawl: Crawl):
    """A server that was down for days comes back with a notice in place of all pages."""
    house(site)
    crawl(site.url("/"))
    for path in PATHS:
        site.pages[path] = Page("down", status=503)
    crawl(site.url("/"), settings={"RETRY_TIMES": 0}, expect=3)
    crawl.rows("UPDATE event SET at = at - 864000")
    wall(site, WALL, *PATHS)
    for _ in range(3):
        crawl.rows("UPDATE state SET next_visit = 0")
        crawl(site.url("/"), settings=DUE, expect=3)
        assert treasures(crawl) == 7

"""Small sites: login walls, and sweeps that would take half of the pages (ADR 33)."""

import json
import re

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story
from tests.site_server import Page, Site, html


def begin(site: Site, crawl: Crawl, pages: int, **settings: object) -> tuple[Story, list[str]]:
    """A site was crawled that has a home page and some others."""
    story = Story(site, crawl, others=0, **({"LOST_THRESHOLD": 1} | settings))
    paths = [f"/page/{n}" for n in range(pages - 1)]
    story.home(*paths)
    for path in paths:
        story.page(path, text=f"treasure of {path}")
    story.run()
    return story, paths


@pytest.mark.long(but=2)
@pytest.mark.covers("M-21", "U-06", "R4-02", "R4-04")
@pytest.mark.parametrize(("status", "target"), [(302, "/"), (303, "/login"), (307, "/login")])
def test_a_small_site_behind_a_login_loses_no_page(
    site: Site, crawl: Crawl, status: int, target: str
):
    """Nine of ten pages answer a redirect to the home page, or to a login page."""
    story, paths = begin(site, crawl, 10)
    healthy = dict(site.pages)
    story.page("/login", text="please log in")
    for path in paths:
        site.pages[path] = Page(redirect=f"{target}?next={path}", status=status)

    for lost in (1, 2):
        story.run()

        assert set(story.words(*paths)) == {"lost"}
        assert {story[path]["lostCount"] for path in paths} == {lost}
        assert {story[path]["goneCount"] for path in paths} == {0}
        assert len(crawl.hits("treasure")) == 9
    assert story.removed() == {}
    site.pages |= healthy

    story.run()

    assert set(story.words(*paths)) == {"unchanged"}
    assert {story[path]["lostCount"] for path in paths} == {0}


@pytest.mark.covers("M-21", "U-06")
def test_two_pages_with_content_make_a_wall_and_one_moves(site: Site, crawl: Crawl):
    story, _ = begin(site, crawl, 10)
    paths = ["/page/0", "/page/1", "/page/2", "/page/3"]
    for path in paths[:2]:
        site.pages[path] = Page(redirect=f"/login?from={path}", status=302)
    site.pages["/page/2"] = Page(redirect="/there", status=307)  # the only page that leads there
    site.pages["/page/3"] = Page(redirect="/login?from=3", status=301)  # for good
    story.page("/login", text="please log in")
    story.page("/there", text="over there")

    story.run()

    assert story.words(*paths) == ["lost", "lost", "redirected", "redirected"]
    assert story.removed() == {"/page/2": "redirect", "/page/3": "redirect"}
    assert sorted(crawl.hits("treasure"))[:2] == paths[:2]


@pytest.mark.covers("M-21")
def test_a_share_of_one_turns_the_wall_off_as_well(site: Site, crawl: Crawl):
    story, paths = begin(site, crawl, 10, SWEEP_MAX_RATIO=1)
    story.page("/login", text="please log in")
    for path in paths:
        site.pages[path] = Page(redirect=f"/login?next={path}", status=302)

    story.run()

    assert story.removed() == dict.fromkeys(paths, "redirect")


@pytest.mark.covers("R4-12", "R1-02")
def test_half_of_a_small_site_goes_only_when_somebody_approves(site: Site, crawl: Crawl):
    story, paths = begin(site, crawl, 10)
    half = paths[:5]
    story.answers(404, *half)

    result = story.run()

    assert "5 removals are withheld" in result.out
    assert set(story.words(*half)) == {"lost"}
    assert story.removed() == {}
    assert len(crawl.hits("treasure")) == 9
    story.command("deltamerge", "-D", expect=3)
    assert story.removed() == {}

    story.command("orphans", "--approve", "2", "--max", "5")

    assert story.removed() == dict.fromkeys(half, "gone")
    assert crawl.hits("treasure") == paths[5:]


@pytest.mark.covers("R4-12", "R1-02", "M-01")
@pytest.mark.parametrize(("pages", "gone"), [(3, 2), (4, 1), (10, 4)])
def test_less_than_half_of_a_small_site_goes_by_itself(
    site: Site, crawl: Crawl, pages: int, gone: int
):
    story, paths = begin(site, crawl, pages)
    story.answers(404, *paths[:gone])

    result = story.run()

    assert "withheld" not in result.out
    assert story.removed() == dict.fromkeys(paths[:gone], "gone")


@pytest.mark.covers("R4-12")
def test_every_other_way_to_remove_half_follows_the_same_guard(site: Site, crawl: Crawl):
    """Orphans by command, a forced run, and a whole source."""
    story, paths = begin(site, crawl, 10, ORPHAN_THRESHOLD=9)
    story.home(*paths[5:])
    story.run()
    assert set(story.words(*paths[:5])) == {"orphaned"}

    withheld = story.command("orphans", "--purge", expect=3)

    assert "this would remove 5 of the 10 pages" in withheld.err
    assert story.removed() == {}
    story.command("orphans", "--purge", "--max", "4")
    assert len(story.removed()) == 4
    story.answers(404, *paths[6:])
    result = story.run(force="1")
    assert "3 removals are withheld" in result.out
    assert len(story.removed()) == 4


@pytest.mark.covers("R4-12", "R1-02", "M-21")
@pytest.mark.parametrize("status", [301, 302])
def test_what_was_withheld_is_not_released_by_what_stands_in_its_place(
    site: Site, crawl: Crawl, status: int
):
    """A login page for each page, or a new home: in the next run they are pages of the source."""
    story, paths = begin(site, crawl, 10)
    healthy = dict(site.pages)
    for n, path in enumerate(paths):
        story.page(f"/in/{n}", text=f"stand-in number {n}")
        site.pages[path] = Page(redirect=f"/in/{n}", status=status)

    for _ in range(3):
        assert "9 removals are withheld" in story.run().out
        assert story.removed() == {}
    [plan] = json.loads(story.command("plan", "--format", "json").out)
    assert plan["guard"] == {"withholds": True, "removals": 9, "pages": 19}
    assert len(crawl.hits("treasure")) == 9
    site.pages |= {path: healthy[path] for path in paths[3:]}

    result = story.run()

    assert not re.search(r"removals? (?:is|are) withheld", result.out)
    assert story.removed() == dict.fromkeys(paths[:3], "redirect")
    assert crawl.hits("treasure") == paths[3:]


def test_a_move_that_the_guard_stopped_goes_when_it_is_approved(site: Site, crawl: Crawl):
    story, paths = begin(site, crawl, 10)
    for n, path in enumerate(paths):
        story.page(f"/in/{n}", text=f"stand-in number {n}")
        site.pages[path] = Page(redirect=f"/in/{n}", status=301)
    story.run()
    story.run()

    story.command("orphans", "--approve", "2", "--max", "9")

    assert story.removed() == dict.fromkeys(paths, "redirect")
    assert "withheld" not in story.run().out
    assert len(crawl.hits('"stand-in"')) == 9


@pytest.mark.covers("R4-12", "R1-02", "M-01")
def test_a_page_without_content_does_not_hide_the_loss_of_all_content(site: Site, crawl: Crawl):
    """Eight pages answer 404 at once; a login page with noindex still answers."""
    story = Story(site, crawl, others=0, LOST_THRESHOLD=1)
    paths = [f"/page/{n}" for n in range(7)]
    story.home("/login", *paths)
    for path in paths:
        story.page(path, text=f"treasure of {path}")
    site.pages["/login"] = html("Log in", head='<meta name="robots" content="noindex">')
    story.run()
    assert story["/login"]["status"] == "Crawled"
    healthy = dict(site.pages)
    story.answers(404, "/", *paths)

    result = story.run(expect=3)

    assert story.removed() == {}
    assert "8 removals are withheld" in result.out
    assert len(crawl.hits("treasure")) == 7
    story.command("deltamerge", "-D", expect=3)
    assert story.removed() == {}
    site.pages |= healthy

    story.run()

    assert set(story.words("/", *paths)) == {"unchanged"}


MAINTENANCE = html("Maintenance", text="We will be back soon.")


@pytest.mark.covers("R4-12", "R1-02", "M-04")
@pytest.mark.parametrize("pages", [2, 3])
def test_pages_behind_a_home_page_without_links_wait_for_an_approval(
    site: Site, crawl: Crawl, pages: int
):
    """Each of them would answer 304; the site has too few pages for half of them to count."""
    story, paths = begin(site, crawl, pages, ORPHAN_THRESHOLD=1)
    healthy = site.pages["/"]
    site.pages["/"] = MAINTENANCE

    for _ in range(2):
        result = story.run()

        assert re.search(r"removals? (?:is|are) withheld", result.out)
        assert set(story.words(*paths)) == {"orphaned"}
        assert story.asked(*paths) == [1] * len(paths)
        assert len(crawl.hits("treasure")) == len(paths)
    [plan] = json.loads(story.command("plan", "--format", "json").out)
    assert plan["guard"] == {"withholds": True, "removals": pages - 1, "pages": pages}
    assert story.removed() == {}
    site.pages["/"] = healthy

    story.run()

    assert set(story.words(*paths)) == {"unchanged"}
    site.pages["/"] = MAINTENANCE
    run = story.run() and crawl.runs()[0]["run"]
    story.command("orphans", "--approve", str(run), "--max", "2")
    assert story.removed() == dict.fromkeys(paths, "orphan")


@pytest.mark.covers("R4-12", "M-04")
@pytest.mark.parametrize(("status", "stays"), [(302, True), (307, True), (301, False)])
def test_pages_of_a_small_site_that_lead_to_its_maintenance_page_wait_for_an_approval(
    site: Site, crawl: Crawl, status: int, stays: bool
):
    story, paths = begin(site, crawl, 3, ORPHAN_THRESHOLD=1)
    site.pages["/"] = MAINTENANCE
    for path in paths:
        site.pages[path] = Page(redirect="/", status=status)

    for _ in range(2):
        story.run()

    assert (story.removed() == {}) is stays
    assert bool(crawl.hits("treasure")) is stays


@pytest.mark.covers("R4-12", "R4-08", "M-04")
def test_orphans_of_a_small_site_that_answer_404_go_by_themselves(site: Site, crawl: Crawl):
    story, paths = begin(site, crawl, 3, ORPHAN_THRESHOLD=1, LOST_THRESHOLD=3)
    site.pages["/"] = MAINTENANCE
    story.answers(404, *paths)

    for _ in range(2):
        result = story.run()

    assert "withheld" not in result.out
    assert story.removed() == dict.fromkeys(paths, "orphan")


@pytest.mark.covers("R4-12", "R1-02", "M-04")
def test_the_pages_of_a_new_home_do_not_hide_the_loss_of_the_old_ones(site: Site, crawl: Crawl):
    """An expired domain: nine of ten pages are orphans, beside twelve new ones."""
    story, paths = begin(site, crawl, 10, ORPHAN_THRESHOLD=2)
    new = [f"/offer/{n}" for n in range(12)]
    for path in new:
        story.page(path, text=f"a cheap {path}")
    story.home(*new)
    story.run()
    assert set(story.words(*paths)) == {"orphaned"}
    [plan] = json.loads(story.command("plan", "--format", "json", "-s", "ORPHAN_THRESHOLD=2").out)
    assert plan["guard"] == {"withholds": True, "removals": 9, "pages": 22}

    result = story.run()

    assert "9 removals are withheld" in result.out
    assert story.removed() == {}
    assert crawl.hits("treasure") == paths
    story.home(*paths[3:], *new)

    result = story.run()

    assert not re.search(r"removals? (?:is|are) withheld", result.out)
    assert story.removed() == dict.fromkeys(paths[:3], "orphan")

"""Removals that are too many: withheld, approved, refuted, undone."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story
from tests.site_server import Page, Site, html

MANY = [f"/page/{n}" for n in range(15)]


def begin(site: Site, crawl: Crawl, *, others: int = 40, **settings: object) -> Story:
    """A site was crawled in which something may happen to fifteen pages."""
    eager: dict[str, object] = {"LOST_THRESHOLD": 1, "ORPHAN_THRESHOLD": 1}
    story = Story(site, crawl, others=others, **(eager | settings))
    story.home(*MANY)
    for path in MANY:
        story.page(path, text=f"treasure of {path}")
    story.run()
    return story


def undone(crawl: Crawl) -> int:
    [(count,)] = crawl.rows("SELECT count(*) FROM evidence WHERE undone IS NOT NULL")
    return int(count)


@pytest.mark.covers("R4-12", "R1-02", "M-04", "U-18")
def test_too_many_orphans_wait_until_somebody_approves(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    story.home(*MANY[:1])
    story.page("/other/1", text="fresh words")

    result = story.run()

    assert set(story.words(*MANY[1:])) == {"orphaned"}
    assert "14 removals are withheld" in result.out
    assert "--approve 2 --max 14" in result.out
    assert crawl.hits("fresh") == ["/other/1"]
    assert len(crawl.hits("treasure")) == 15
    assert story.removed() == {}

    story.home(*MANY[:3])  # two of them are linked again

    result = story.run()

    assert story.words(*MANY[:4]) == ["unchanged", "unchanged", "unchanged", "orphaned"]
    assert "--approve 3 --max 12" in result.out

    crawl.run("orphans", "--approve", "3", "--max", "5", expect=None)  # fewer than are waiting
    story.forget()

    assert len(story.removed()) <= 5

    story.command("orphans", "--approve", "3", "--max", "12")

    assert set(story.words(*MANY[3:])) == {"deleted"}
    assert all(story.bare(path) for path in MANY[3:])
    assert crawl.hits("treasure") == MANY[:3]
    assert story.removed() == dict.fromkeys(MANY[3:], "orphan")
    assert crawl.counts_add_up()
    site.clear()
    again = crawl.run("orphans", "--approve", "3", "--max", "12", expect=None)
    assert "Traceback" not in again.err
    assert site.log == []
    assert len(story.removed()) == 12

    story.run()

    assert set(story.words(*MANY[3:])) == {"deleted"}
    assert set(story.words(*MANY[:3])) == {"unchanged"}
    assert story.asked(*MANY) == [1, 1, 1] + [0] * 12


@pytest.mark.covers("R4-12", "R4-43", "M-01", "U-19")
def test_what_answered_since_is_not_removed_by_an_approval(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    healthy = dict(site.pages)
    story.answers(404, *MANY)
    result = story.run()
    assert set(story.words(*MANY)) == {"lost"}
    assert "--approve 2 --max 15" in result.out
    site.pages |= {path: healthy[path] for path in MANY[:12]}

    story.run()

    assert set(story.words(*MANY[:12])) == {"unchanged"}
    assert set(story.words(*MANY[12:])) == {"gone"}  # three are few enough
    story.answers(404, *MANY[:12])
    story.run()
    site.pages |= healthy
    story.run()  # all of them answer again before anybody approves run 4

    crawl.run("orphans", "--approve", "4", "--max", "12", expect=None)
    story.forget()

    assert crawl.hits("treasure") == sorted(MANY)
    assert set(story.words(*MANY[:12])) == {"unchanged"}
    assert story.removed() == dict.fromkeys(MANY[12:], "gone")


@pytest.mark.covers("R1-02", "R4-12", "M-01")
def test_ten_pages_go_whatever_their_share_but_never_the_last_ones(site: Site, crawl: Crawl):
    story = begin(site, crawl, others=5)
    story.answers(404, *MANY[:10])

    story.run()  # 10 of 21

    assert set(story.words(*MANY[:10])) == {"gone"}
    assert set(story.words(*MANY[10:])) == {"unchanged"}
    assert crawl.hits("treasure") == sorted(MANY[10:])
    assert story.removed() == dict.fromkeys(MANY[:10], "gone")
    everything = list(site.pages)
    for path in everything:
        del site.pages[path]

    result = story.run(expect=3)  # the remaining 11 are too many

    assert "withheld" in result.out
    assert crawl.hits("treasure") == sorted(MANY[10:])
    story.home(MANY[10])
    for path in ("/other/0", "/other/1"):
        story.page(path, text="back")
    story.page(MANY[10], text=f"treasure of {MANY[10]}")
    story.run()  # more than half of what is left is still gone
    assert crawl.hits("treasure") == sorted(MANY[10:])
    story.command("orphans", "--approve", "4", "--max", "7")
    assert crawl.hits("treasure") == [MANY[10]]
    site.pages.clear()

    for _ in range(2):
        result = story.run(expect=3)  # four are left; the last ones never go by themselves

        assert "withheld" in result.out
        assert crawl.hits("treasure") == [MANY[10]]
        assert story.words(MANY[10]) == ["lost"]
        assert len(crawl.hits("home OR back")) >= 1


@pytest.mark.covers("R1-02", "R4-12")
def test_a_share_of_one_turns_the_guard_off(site: Site, crawl: Crawl):
    story = begin(site, crawl, others=5, SWEEP_MAX_RATIO=1)
    story.answers(404, *MANY)

    result = story.run()

    assert set(story.words(*MANY)) == {"gone"}
    assert "withheld" not in result.out
    assert crawl.hits("treasure") == []
    assert len(story.removed()) == 15


@pytest.mark.covers("R4-12", "M-09", "R1-45", "M-04")
def test_what_was_removed_can_be_brought_back(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    story.home("/page/1", "/page/2", "/page/3")
    story.answers(404, "/page/1")
    site.pages["/page/2"] = Page(redirect="/there")
    story.page("/there", text="over there")
    site.pages["/page/3"] = html("/page/3", head='<meta name="robots" content="noindex">')
    before = crawl.pages()
    four = ["/page/1", "/page/2", "/page/3", "/page/4"]
    story.home(*four[:3], *MANY[4:])
    story.home(*four[:3], *(path for path in MANY if path != "/page/4"))

    result = story.run()

    assert story.words(*four) == ["gone", "redirected", "excluded", "deleted"]
    assert "scrapy undo" in result.out
    assert len(crawl.hits("treasure")) == 11
    rules = ["gone", "redirect", "not acceptable", "orphan"]
    assert story.removed() == dict(zip(four, rules, strict=True))

    story.command("undo", "2")

    assert crawl.hits("treasure") == sorted(MANY)
    for path in four:
        page = story[path]
        for key in ("contentHash", "bodyHash", "effectiveStatus", "firstSeen", "lastChanged"):
            assert page[key] == before[path][key], (path, key)
        assert page["orphanAge"] == 0  # seen by the latest run
    assert undone(crawl) == 4
    assert crawl.counts_add_up()
    crawl.run("undo", "2", expect=1)  # there is nothing left to undo

    # with thresholds that leave time to think the next run starts to count anew
    story.run(settings={"LOST_THRESHOLD": 2, "ORPHAN_THRESHOLD": 2})

    assert story.words("/page/1", "/page/4") == ["lost", "orphaned"]
    assert (story["/page/1"]["goneCount"], story["/page/4"]["orphanAge"]) == (1, 1)
    assert story.words("/page/2", "/page/3") == ["redirected", "excluded"]
    assert crawl.hits("treasure") == sorted(set(MANY) - {"/page/2", "/page/3"})

    story.run(settings={"LOST_THRESHOLD": 2, "ORPHAN_THRESHOLD": 2})

    assert story.words(*four) == ["gone", "redirected", "excluded", "deleted"]


@pytest.mark.covers("R4-12", "M-04", "U-18")
def test_what_is_brought_back_with_a_pin_stays(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    story.home(*MANY[2:])
    story.run()
    assert story.words(*MANY[:2]) == ["deleted", "deleted"]

    story.command("undo", "2", "--pin")

    assert crawl.hits("treasure") == sorted(MANY)
    assert story.removed() == dict.fromkeys(MANY[:2], "orphan")  # the evidence stays
    for _ in range(2):
        story.run()

        assert story.words(*MANY[:2]) == ["unchanged", "unchanged"]
        assert story.asked(*MANY[:2]) == [1, 1]
        assert crawl.hits("treasure") == sorted(MANY)
    assert len(crawl.rows("SELECT * FROM evidence")) == 2
    story.answers(404, "/page/0")  # a pin keeps the address, not what is gone

    story.run()

    assert story.words("/page/0") == ["gone"]


@pytest.mark.covers("M-09", "R4-12", "RD-11")
def test_undo_does_not_touch_what_came_back_by_itself(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    story.answers(404, *MANY[:3])
    story.run()
    assert set(story.words(*MANY[:3])) == {"gone"}
    story.page("/page/0", text="jewels of today")
    site.pages["/page/1"] = html("No", head='<meta name="robots" content="noindex">')

    story.run()

    assert story.words(*MANY[:3]) == ["new", "excluded", "gone"]

    crawl.run("undo", "2", expect=None)
    story.forget()

    assert crawl.hits("jewels") == ["/page/0"]
    assert set(crawl.hits("treasure")) - set(MANY[3:]) <= {"/page/1", "/page/2"}
    assert story["/page/0"]["status"] == "Indexed"

    story.run()

    assert story.words("/page/0") == ["unchanged"]
    assert story["/page/1"]["status"] == "Crawled"
    assert story["/page/2"]["status"] == "Gone"
    assert sorted(crawl.hits("treasure")) == sorted(MANY[3:])

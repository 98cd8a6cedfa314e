"""Pages that no link leads to any more: how they age, what is looked at, when they go."""

from itertools import pairwise

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story, printed
from tests.site_server import Page, Site, html


@pytest.mark.covers(
    "R1-02", "R1-21", "R1-44", "R4-08", "R4-09", "R4-10", "R4-12", "RD-02", "RD-11", "RD-16",
    "M-04", "U-17", "U-18",
)  # fmt: skip
def test_an_unlinked_page_ages_is_looked_at_once_and_goes_and_comes_back(site: Site, crawl: Crawl):
    story = Story(site, crawl)
    story.home("/page", "/back")
    story.page("/page", "/child", text="treasure in the attic")
    story.page("/child", text="the attic stairs")
    story.page("/back", text="treasure that was missed")
    story.run()
    first = story["/page"]
    story.home()

    for age in (1, 2):
        story.run()

        page = story["/page"]
        assert (page["lastOutcome"], page["status"]) == ("orphaned", "Indexed")
        assert (page["orphanAge"], page["lostCount"], page["goneCount"]) == (age, 0, 0)
        assert page["lastChecked"] == first["lastChecked"]
        assert story.asked("/page", "/child", "/back") == [0, 0, 0]
        assert crawl.hits("treasure") == ["/back", "/page"]
    assert story.removed() == {}
    story.home("/back")
    story.page("/page", "/child", "/unknown", text="jewels in the attic")
    story.page("/unknown", text="only the orphan leads here")

    story.run()

    assert story.words("/back", "/page", "/child") == ["unchanged", "deleted", "deleted"]
    assert story["/back"]["orphanAge"] == 0
    assert story.conditional("/back") == [True]
    assert story.conditional("/page") == [True]
    assert story.conditional("/child") == [True]
    assert story.asked("/unknown") == [0]  # the look follows no link
    assert "/unknown" not in crawl.pages()
    assert story["/page"]["status"] == "OutOfScope"
    assert [story[path]["lastStatusCode"] for path in ("/page", "/child")] == [200, 304]
    assert story.bare("/page")
    assert story["/page"]["orphanAge"] == 0  # nothing is held
    assert crawl.hits("treasure") == ["/back"]
    assert crawl.hits("jewels") == []
    assert story.removed() == {"/page": "orphan", "/child": "orphan"}

    story.run()

    assert story.words("/page", "/child") == ["deleted", "deleted"]  # they keep their word
    assert story.asked("/page", "/child") == [0, 0]
    story.home("/back", "/page")

    story.run()

    assert story.conditional("/page") == [False]
    assert story.words("/page", "/child", "/unknown") == ["new"] * 3
    assert story["/page"]["firstSeen"] == first["firstSeen"]
    assert crawl.hits("jewels") == ["/page"]


@pytest.mark.covers("R4-07", "R4-12", "M-05", "M-08", "U-18", "R1-02")
def test_the_runs_in_which_an_orphan_was_gone_before_are_added(site: Site, crawl: Crawl):
    """Gone or forbidden twice and unlinked once is three; a server in trouble counts nothing."""
    story = Story(site, crawl)
    paths = ("/gone", "/forbidden", "/broken", "/both")
    story.home(*paths)
    for path in paths:
        story.page(path, text=f"treasure of {path[1:]}")
    story.run()
    for _ in range(2):
        story.answers(404, "/gone")
        story.answers(403, "/forbidden")
        story.answers(500, "/broken")
        story.run()
    assert story.words(*paths) == ["lost", "lost", "failed", "unchanged"]
    story.home()
    story.answers(404, "/both")  # removed and unlinked at once

    story.run()

    assert story.words(*paths) == ["deleted", "deleted", "orphaned", "orphaned"]
    assert story.asked(*paths) == [1, 1, 0, 0]
    assert story.removed() == {"/gone": "orphan", "/forbidden": "orphan"}
    assert story.bare("/gone")
    assert story.bare("/forbidden")
    assert [story[path]["orphanAge"] for path in paths] == [0, 0, 1, 1]
    assert crawl.hits("treasure") == ["/both", "/broken"]

    story.run()

    assert story.words(*paths) == ["deleted", "deleted", "orphaned", "orphaned"]
    assert story.asked(*paths) == [0, 0, 0, 0]

    story.run()

    # 500 at the look: kept, and looked at again by the next run
    assert story.words(*paths) == ["deleted", "deleted", "orphaned", "deleted"]
    assert story.asked(*paths) == [0, 0, 1, 1]
    assert (story["/both"]["goneCount"], story["/broken"]["goneCount"]) == (0, 0)
    assert crawl.hits("treasure") == ["/broken"]


@pytest.mark.covers("U-18", "R4-40", "R4-42", "M-04")
def test_an_orphan_whose_look_fails_is_kept_and_goes_next_time(site: Site, crawl: Crawl):
    looks = {
        "/304": None,
        "/200": Page(html("other", text="jewels")),
        "/moved": Page(redirect="/elsewhere"),
        "/404": Page("no", status=404),
        "/410": Page("no", status=410),
        "/503": Page("no", status=503),
        "/429": Page("no", status=429),
        "/403": Page("no", status=403),
        "/401": Page("no", status=401),
        "/reset": Page(fault="reset"),
        "/half": Page(html("half", text="half a page " * 50), fault="truncate"),
    }
    goes = ["/304", "/200", "/moved", "/404", "/410"]
    stays = [path for path in looks if path not in goes]
    story = Story(site, crawl, others=80, ORPHAN_THRESHOLD=1, SWEEP_MIN_COUNT=20)
    story.home(*looks)
    for path in looks:
        story.page(path, text=f"treasure of {path[1:]}")
    story.run()
    before = crawl.pages()
    story.home()
    site.pages |= {path: page for path, page in looks.items() if page}

    story.run()

    assert story.words(*goes) == ["deleted"] * 5
    assert story.words(*stays) == ["orphaned"] * 6
    del looks["/reset"]  # the client asks once more when a connection that was open breaks
    assert story.asked(*looks) == [1] * 10
    assert all(story.conditional(path) == [True] for path in looks)
    assert "/elsewhere" not in crawl.pages()
    assert crawl.hits("treasure") == sorted(stays)
    assert crawl.hits("jewels") == []
    for path in stays:
        page = story[path]
        assert (page["lostCount"], page["goneCount"], page["orphanAge"]) == (0, 0, 1)
        for key in ("contentHash", "httpEtag", "lastChanged", "effectiveStatus"):
            assert page[key] == before[path][key], (path, key)
    assert story.removed() == dict.fromkeys(goes, "orphan")
    for path in stays:
        story.page(path, text=f"treasure of {path[1:]}")

    story.run()

    assert story.words(*stays) == ["deleted"] * 6
    assert story.asked(*goes) == [0] * 5
    assert crawl.hits("treasure") == []


@pytest.mark.covers("R1-44", "R4-08", "M-04", "U-18")
def test_a_ring_of_orphans_holds_nobody(site: Site, crawl: Crawl):
    story = Story(site, crawl, ORPHAN_THRESHOLD=2)
    ring = [f"/ring/{n}" for n in range(6)]
    story.home(ring[0])
    for n, path in enumerate(ring):
        story.page(path, ring[n - 1], ring[(n + 1) % 6], "/", text=f"treasure {n}")
    story.run()
    story.home()

    story.run()

    assert story.words(*ring) == ["orphaned"] * 6
    assert story.asked(*ring) == [0] * 6
    assert len(crawl.hits("treasure")) == 6

    story.run()

    assert story.words(*ring) == ["deleted"] * 6
    assert story.asked(*ring) == [1] * 6
    assert crawl.hits("treasure") == []
    assert story.removed() == dict.fromkeys(ring, "orphan")


@pytest.mark.covers("M-04", "R4-12")
def test_an_orphan_goes_when_it_was_one_for_long_enough_as_well(site: Site, crawl: Crawl):
    story = Story(site, crawl, ORPHAN_THRESHOLD=2, ORPHAN_MIN_AGE=3600)
    story.home("/page")
    story.page("/page", text="treasure in the attic")
    story.run()
    story.home()

    for age in (1, 2, 3):
        story.run()

        assert story.words("/page") == ["orphaned"]
        assert story["/page"]["orphanAge"] == age
        assert story.asked("/page") == [0]
    story.alter("UPDATE run SET started_at = started_at - 3600, finished_at = finished_at - 3600")

    story.run()

    assert story.words("/page") == ["deleted"]
    assert crawl.hits("treasure") == []
    assert story.removed() == {"/page": "orphan"}


@pytest.mark.covers("R4-07", "R4-08", "R4-10", "M-05", "U-18")
def test_an_orphan_that_is_forbidden_later_goes_after_both_thresholds(site: Site, crawl: Crawl):
    """What a wall or a server in trouble answers instead holds a page, however long."""
    thresholds = {"ORPHAN_THRESHOLD": 1, "LOST_THRESHOLD": 1}
    story = Story(site, crawl, others=20, **thresholds)
    walled = Page("no", status=403, headers={"cf-mitigated": "challenge"})
    looks = {"/forbidden": Page("no", status=403), "/wall": walled, "/busy": Page("", status=429)}
    story.home(*looks)
    for path in looks:
        story.page(path, text=f"treasure of {path[1:]}")
    story.run()
    story.home()
    site.pages |= looks

    story.run()

    assert story.words(*looks) == ["orphaned"] * 3
    assert story.asked(*looks) == [1, 1, 1]
    assert story.removed() == {}
    assert "the check before removal failed (403)" in crawl.run("why", site.url("/forbidden")).out

    for _ in range(2):
        story.run()

        assert story.words(*looks) == ["deleted", "orphaned", "orphaned"]
        assert story.removed() == {"/forbidden": "orphan"}
        assert crawl.hits("treasure") == ["/busy", "/wall"]


@pytest.mark.covers("R4-07", "R4-39", "M-05", "U-18")
def test_the_runs_in_which_an_orphan_failed_by_its_headers_are_added(site: Site, crawl: Crawl):
    """The look follows no redirect, so that it finds one where the visits found an error."""
    story = Story(site, crawl, others=20)
    paths = ("/circle", "/nowhere", "/long", "/304")
    story.home(*paths)
    for path in paths:
        story.page(path, text=f"treasure of {path}", **({"etag": None} if path == "/304" else {}))
    story.run()
    site.pages["/circle"] = Page(redirect="/circle", status=302)
    site.pages["/nowhere"] = Page(status=301)
    for here, there in pairwise(["/long", *(f"/long/{n}" for n in range(7))]):
        site.pages[here] = Page(redirect=there)
    site.pages["/304"] = Page(status=304, etag=None)
    for count in (1, 2):
        story.run()

        assert [story[path]["httpStatusCode"] for path in paths] == [1002, 1003, 1004, 1001]
        assert {(story[path]["lostCount"], story[path]["goneCount"]) for path in paths} == {
            (count, 0)
        }
    assert story.removed() == {}
    story.home()

    story.run()

    assert story.asked(*paths) == [1] * 4
    assert story.removed() == dict.fromkeys(paths, "orphan")
    assert crawl.hits("treasure") == []


@pytest.mark.covers("R4-07", "M-05", "U-18")
def test_a_forbidden_page_that_answers_the_look_waits_like_any_orphan(site: Site, crawl: Crawl):
    story = Story(site, crawl)
    story.home("/page")
    story.page("/page", text="treasure in the attic")
    story.run()
    healthy = site.pages["/page"]
    story.answers(403, "/page")
    story.run()
    story.run()
    story.home()
    site.pages["/page"] = healthy

    for age in (1, 2):
        story.run()

        assert story.words("/page") == ["orphaned"]
        assert story["/page"]["orphanAge"] == age
        assert story.asked("/page") == [1]
        assert story.removed() == {}

    story.run()

    assert story.removed() == {"/page": "orphan"}


def test_the_closing_table_has_what_a_run_did_and_no_removal_of_earlier_runs(
    site: Site, crawl: Crawl
):
    story = Story(site, crawl, ORPHAN_THRESHOLD=1, LOST_THRESHOLD=1)
    story.home("/orphan", "/dead", "/typo")
    story.page("/orphan", text="treasure in the attic")
    story.page("/dead", text="a letter that was burnt")
    story.run()
    story.home("/dead", "/typo")
    story.answers(404, "/dead")

    removal = story.run()

    words = ("deleted", "gone", "still gone", "failed")
    assert [printed(removal, word) for word in words] == [1, 1, 0, 1]

    story.home("/dead", "/mistake")
    after = story.run()

    assert [printed(after, word) for word in words] == [0, 0, 1, 1]
    assert "1 page failed in this run, 1 in earlier ones. List them:" in after.out
    run = crawl.runs()[0]
    assert (run["deleted"], run["gone"], run["failed"]) == (1, 1, 2)  # each record has a word
    assert (run["removed"], run["restored"]) == (0, 0)

    story.command("undo", "2")
    shown = crawl.run("runs").out

    assert [(run["removed"], run["restored"]) for run in crawl.runs()] == [(0, 0), (2, 2), (0, 0)]
    assert [line.rstrip().endswith("2 removed, 2 restored by an undo")
            for line in shown.splitlines()[1:4]] == [False, True, False]  # fmt: skip

"""Pages that answer errors: how long they stay, when they go, how they come back."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story
from tests.site_server import Page, Site


@pytest.mark.covers(
    "R1-02", "R1-21", "R1-47", "R1-54", "R4-01", "R4-02", "R4-03", "R4-04", "R4-05", "R4-23",
    "R4-27", "R4-28", "R4-38", "R4-45", "RD-02", "RD-11", "M-01", "M-06", "M-09", "U-08", "U-09",
)  # fmt: skip
def test_a_removed_page_is_lost_then_gone_and_comes_back_with_its_first_day(
    site: Site, crawl: Crawl
):
    story = Story(site, crawl)
    story.home("/page")
    story.page("/page", "/page/child", text="treasure in the attic")
    story.page("/page/child", text="the attic stairs")
    story.run()
    first = story["/page"]
    story.answers(404, "/page")

    for lost in (1, 2):
        story.run()

        page = story["/page"]
        assert (page["lastOutcome"], page["status"]) == ("lost", "Error")
        assert (page["httpStatusCode"], page["effectiveStatus"]) == (404, 200)
        assert (page["lostCount"], page["goneCount"]) == (lost, lost)
        assert page["contentHash"] == first["contentHash"]
        assert page["lastChanged"] == first["lastChanged"]
        assert story.hit("treasure")["lost"] is True
        assert story.words("/page/child") == ["unchanged"]  # what is held vouches for its links
        assert story.asked("/page") == [1]
        assert story.conditional("/page") == [True]
    assert story.removed() == {}

    result = story.run()

    page = story["/page"]
    assert (page["lastOutcome"], page["status"]) == ("gone", "Gone")
    assert (page["httpStatusCode"], page["effectiveStatus"]) == (404, 404)
    assert page["lostCount"] == 0
    assert story.bare("/page")
    assert crawl.hits("treasure") == []
    assert story.removed() == {"/page": "gone"}
    assert "gone" in result.out
    assert story.words("/page/child") == ["unchanged"]
    told = crawl.run("why", site.url("/page")).out
    assert "404" in told
    assert "gone" in told
    assert "undo 4" in told

    for _ in range(2):  # a tombstone that is still linked is asked in each run
        story.run()

        assert (story["/page"]["status"], story["/page"]["lastOutcome"]) == ("Gone", "gone")
        assert story.conditional("/page") == [False]
        assert story.words("/page/child") == ["orphaned"]
    story.page("/page", "/page/child", text="treasure in the attic")

    story.run()

    assert story.conditional("/page") == [False]
    page = story["/page"]
    assert (page["lastOutcome"], page["status"]) == ("new", "Indexed")
    assert (page["firstSeen"], page["id"]) == (first["firstSeen"], first["id"])
    assert (page["lostCount"], page["goneCount"]) == (0, 0)
    assert story.hit("treasure")["lost"] is False
    assert story.words("/page/child") == ["unchanged"]
    assert story["/page/child"]["orphanAge"] == 0


@pytest.mark.covers("R1-08", "R1-09", "R1-34", "R1-45", "R1-47", "M-01", "U-09", "R4-28")
def test_with_a_threshold_of_one_a_404_is_gone_by_the_end_of_the_same_run(site: Site, crawl: Crawl):
    story = Story(site, crawl)
    story.home("/page", "/kept")
    story.page("/page", "/page/child", text="treasure in the attic")
    story.page("/page/child", text="the attic stairs")
    story.page("/kept", text="treasure in the cellar")
    story.run()
    number = "SELECT no FROM record WHERE url LIKE '%/page'"
    held = f"SELECT count(*) FROM links WHERE no IN ({number})"
    assert crawl.rows(held) == [(1,)]
    story.answers(404, "/page")

    story.run(lost_threshold=1)

    assert (story["/page"]["status"], story["/page"]["lastOutcome"]) == ("Gone", "gone")
    assert story.bare("/page")
    assert story.asked("/page") == [1]
    assert crawl.hits("treasure") == ["/kept"]
    assert story.removed() == {"/page": "gone"}
    assert crawl.rows(held) == [(0,)]
    assert crawl.rows("SELECT count(*) FROM pages WHERE url LIKE '%/page'") == [(0,)]
    assert not [text for text in crawl.texts() if "attic" in text and "treasure" in text]

    story.run()

    assert story.words("/page", "/page/child") == ["gone", "orphaned"]
    assert crawl.rows("SELECT count(*) FROM evidence") == [(1,)]


@pytest.mark.covers("R0-50", "M-01")
def test_a_page_is_gone_when_it_was_gone_long_enough_as_well(site: Site, crawl: Crawl):
    story = Story(site, crawl, LOST_THRESHOLD=2, LOST_MIN_AGE=3600)
    story.home("/page")
    story.page("/page", text="treasure in the attic")
    story.run()
    story.answers(410, "/page")

    for count in (1, 2, 3):
        story.run()

        assert story.words("/page") == ["lost"]
        assert (story["/page"]["lostCount"], story["/page"]["goneCount"]) == (count, count)
    story.alter("UPDATE state SET gone_since = gone_since - 3600")

    story.run()

    assert story.words("/page") == ["gone"]
    assert story["/page"]["effectiveStatus"] == 410
    assert crawl.hits("treasure") == []
    assert story.removed() == {"/page": "gone"}


@pytest.mark.covers("M-08", "U-08", "U-10", "U-13", "U-20", "R4-27", "R4-38", "R4-40", "RD-08")
def test_only_listed_statuses_remove_and_a_weak_server_never_does(site: Site, crawl: Crawl):
    story = Story(site, crawl, LOST_THRESHOLD=2, LOST_PURGE_STATUSES="404", others=40)
    statuses = (404, 410, 403, 401, 451, 500, 503, 429, 408)
    paths = [f"/{status}" for status in statuses]
    story.home(*paths)
    for path in paths:
        story.page(path, text=f"treasure of {path[1:]}")
    story.run()
    for status in statuses:
        story.answers(status, f"/{status}")

    story.run()

    assert story.words(*paths) == ["lost"] * 5 + ["failed"] * 4
    counts = [(story[path]["lostCount"], story[path]["goneCount"]) for path in paths]
    assert counts == [(1, 1), (1, 1), (1, 0), (1, 0), (1, 0), (0, 0), (0, 0), (0, 0), (0, 0)]
    assert all(hit["lost"] for hit in crawl.search("treasure"))

    story.run()

    assert story.words(*paths) == ["gone"] + ["lost"] * 4 + ["failed"] * 4
    assert story.removed() == {"/404": "gone"}

    story.run(settings={"LOST_PURGE_STATUSES": "404,410,403"})  # the 410 was gone before

    assert story.words(*paths) == ["gone", "gone"] + ["lost"] * 3 + ["failed"] * 4
    assert [story[path]["lostCount"] for path in ("/403", "/401", "/500")] == [3, 3, 0]

    story.run(settings={"LOST_PURGE_STATUSES": "*"})  # the 403 was gone twice now

    assert story.words("/403", "/401", "/451") == ["gone", "lost", "lost"]

    story.run(settings={"LOST_PURGE_STATUSES": "*"})

    assert story.removed() == dict.fromkeys(["/404", "/410", "/403", "/401", "/451"], "gone")
    assert crawl.hits("treasure") == ["/408", "/429", "/500", "/503"]


@pytest.mark.covers("R4-43", "R4-44", "RD-08", "U-11", "U-19", "U-02", "U-03", "U-04")
def test_only_an_answer_ends_the_loss(site: Site, crawl: Crawl):
    story = Story(site, crawl, others=20)
    answering = ["/304", "/same", "/changed"]
    paths = [*answering, "/503"]
    story.home(*paths, "/never")
    for path in paths:
        story.page(path, text=f"treasure of {path[1:]}")
    story.run()
    healthy = site.pages["/304"]
    for count in (1, 2):
        story.answers(404, *paths)
        story.run()
        assert [story[path]["goneCount"] for path in paths] == [count] * 4
    site.pages["/304"] = healthy
    story.page("/same", text="treasure of same", etag=None)
    story.page("/changed", text="treasure of another kind")
    story.answers(503, "/503")

    story.run()

    assert story.words(*paths) == ["unchanged", "unchanged", "modified", "failed"]
    for path in answering:
        page = story[path]
        assert (page["lostCount"], page["goneCount"], page["status"]) == (0, 0, "Indexed")
    assert [hit["lost"] for hit in crawl.search("another")] == [False]
    assert (story["/503"]["lostCount"], story["/503"]["goneCount"]) == (2, 2)
    story.answers(404, *paths)

    story.run()

    assert story.words(*paths) == ["lost", "lost", "lost", "gone"]
    assert [story[path]["goneCount"] for path in answering] == [1, 1, 1]
    assert story.removed() == {"/503": "gone"}
    assert (story["/never"]["status"], story["/never"]["lastOutcome"]) == ("Gone", "failed")


@pytest.mark.covers("RD-09", "R4-27", "U-10", "U-20")
def test_a_hub_that_fails_for_one_run_or_for_five_orphans_nobody(site: Site, crawl: Crawl):
    story = Story(site, crawl, others=20, LOST_THRESHOLD=1, ORPHAN_THRESHOLD=1)
    hubs = {"/hub/500": "failed", "/hub/403": "lost", "/hub/206": "lost"}
    leaves = [f"{hub}/{n}" for hub in hubs for n in range(10)]
    story.home(*hubs)
    for hub in hubs:
        story.page(hub, *(path for path in leaves if path.startswith(hub)), text="a hub")
    for path in leaves:
        story.page(path, text=f"treasure {path}")
    story.run()
    healthy = {hub: site.pages[hub] for hub in hubs}
    for hub in hubs:
        story.answers(int(hub.removeprefix("/hub/")), hub)

    for _ in range(5):
        story.run()

        assert story.words(*hubs) == list(hubs.values())
        assert set(story.words(*leaves)) == {"unchanged"}
        assert story.asked(*leaves) == [1] * 30
    assert len(crawl.hits("treasure")) == 30
    site.pages |= healthy

    story.run()

    assert story.words(*hubs) == ["unchanged"] * 3
    assert story.removed() == {}


@pytest.mark.covers("R1-19", "R1-48", "R1-54", "M-09", "RD-06")
def test_many_things_happen_at_once_and_each_page_gets_its_own_answer(site: Site, crawl: Crawl):
    story = Story(site, crawl, others=30, LOST_THRESHOLD=2)
    story.home("/edited", "/removed", "/dropped", "/moved", "/broken")
    for path in ("/edited", "/removed", "/dropped", "/moved", "/broken"):
        story.page(path, text=f"treasure of {path[1:]}")
    story.run()
    story.home("/edited", "/removed", "/moved", "/broken", "/added")
    story.page("/edited", text="jewels of edited")
    story.page("/added", text="treasure of added")
    story.page("/there", text="treasure over there")
    site.pages["/moved"] = Page(redirect="/there")
    story.answers(404, "/removed")
    story.answers(500, "/broken")
    paths = ("/edited", "/removed", "/dropped", "/moved", "/there", "/broken", "/added")

    story.run()

    assert story.words(*paths) == [
        "modified", "lost", "orphaned", "redirected", "new", "failed", "new"
    ]  # fmt: skip
    assert story.asked(*paths) == [1, 1, 0, 1, 1, 1, 1]
    assert crawl.runs()[0]["notModified"] == 30
    assert crawl.hits("treasure") == ["/added", "/broken", "/dropped", "/removed", "/there"]
    assert crawl.hits("jewels") == ["/edited"]

    story.run()

    assert story.words(*paths) == [
        "unchanged", "gone", "orphaned", "redirected", "unchanged", "failed", "unchanged"
    ]  # fmt: skip
    assert crawl.hits("treasure") == ["/added", "/broken", "/dropped", "/there"]
    assert story.removed() == {"/moved": "redirect", "/removed": "gone"}
    assert crawl.rows(
        "SELECT count(*) FROM chunk WHERE content NOT IN (SELECT no FROM content)"
    ) == [(0,)]

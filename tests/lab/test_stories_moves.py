"""Pages that move: by redirects that hold, that wait, that lie."""

from itertools import pairwise

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story
from tests.site_server import Page, Site, html


@pytest.mark.covers(
    "R1-26", "R1-27", "R4-33", "R4-37", "RD-02", "RD-11", "M-21", "M-22", "U-06", "R4-24"
)
def test_a_page_that_moves_is_found_at_its_new_place_and_back_again(site: Site, crawl: Crawl):
    story = Story(site, crawl)
    story.home("/old")
    story.page("/old", "/old/child", text="treasure in the attic")
    story.page("/old/child", text="the attic stairs")
    story.run()
    first = story["/old"]
    site.pages["/new"] = site.pages["/old"]
    site.pages["/old"] = Page(redirect="/new")

    story.run()

    old = story["/old"]
    assert (old["lastOutcome"], old["status"]) == ("redirected", "Crawled")
    assert (old["httpStatusCode"], old["effectiveStatus"]) == (301, 301)
    assert story.bare("/old")
    assert (story["/new"]["status"], story["/new"]["duplicateOf"]) == ("Indexed", None)
    assert story["/new"]["depth"] == old["depth"]
    assert story.asked("/old", "/new", "/old/child") == [1, 1, 1]
    assert crawl.hits("treasure") == ["/new"]
    assert story.removed() == {"/old": "redirect"}

    story.run()

    assert story.words("/old", "/new", "/old/child") == ["redirected", "unchanged", "unchanged"]
    assert story.conditional("/old") == [False]
    assert len(crawl.rows("SELECT * FROM evidence")) == 1
    site.pages["/old"] = site.pages["/new"]
    del site.pages["/new"]

    story.run()

    assert story.words("/new") == ["orphaned"]
    assert story["/old"]["status"] == "Indexed"
    assert story["/old"]["firstSeen"] == first["firstSeen"]
    assert len(crawl.hits("treasure")) == 1

    for _ in range(2):
        story.run()
        assert len(crawl.hits("treasure")) == 1
    assert story.words("/new", "/old") == ["deleted", "unchanged"]
    assert crawl.hits("treasure") == ["/old"]
    assert story["/old"]["duplicateOf"] is None


@pytest.mark.covers("R4-37", "M-21", "U-06", "R4-40", "R4-02")
def test_a_redirect_counts_only_when_its_target_is_indexed(site: Site, other: Site, crawl: Crawl):
    other.pages["/"] = html("Elsewhere")
    story = Story(site, crawl, others=20, LOST_THRESHOLD=9)
    moves = {  # with what a permanent and a temporary redirect to it come to
        "503": ("/503", "redirected", "lost"),
        "404": ("/404", "lost", "lost"),
        "noindex": ("/noindex", "redirected", "lost"),
        "away": (other.url("/"), "lost", "lost"),
        "was": ("/was", "redirected", "lost"),  # held, but not seen in this run
        "fine": ("/fine", "redirected", "redirected"),
    }
    paths = [f"/{name}/{status}" for name in moves for status in (301, 302)]
    story.home(*paths, "/was")
    for path in paths:
        story.page(path, text=f"treasure of {path}")
    story.page("/was", text="a page that was fine")
    story.run()
    healthy = dict(site.pages)
    story.answers(503, "/503", "/was")
    site.pages["/noindex"] = html("No", head='<meta name="robots" content="noindex">')
    story.page("/fine", text="a fine page")
    for path in paths:
        _, name, status = path.split("/")
        site.pages[path] = Page(redirect=moves[name][0], status=int(status))

    for lost in (1, 2, 3, 4):
        story.run()

        pages = crawl.pages()
        for name, (_, permanent, temporary) in moves.items():
            waits, ages = pages[f"/{name}/301"], pages[f"/{name}/302"]
            words = [waits["lastOutcome"], ages["lastOutcome"]]
            assert words == [permanent, temporary], name
            gone = lost if permanent == "lost" else 0
            assert (waits["lostCount"], waits["goneCount"]) == (gone, gone), name
            if name != "fine":
                found = lost if name == "404" else 0
                assert (ages["lostCount"], ages["goneCount"]) == (lost, found), name
                assert ages["status"] == "Error"
                assert waits["status"] == ("Error" if gone else "Indexed")
            if gone:
                end = moves[name][0]
                end = site.url(end) if end.startswith("/") else end
                why = f"not found: redirected to {end}, which does not exist"
                assert waits["errorMessage"] == (why if name == "404" else f"moved to {end}")
        assert story.removed() == {"/fine/301": "redirect", "/fine/302": "redirect"}
        assert len(crawl.hits("treasure")) == 10
    assert other.log == []
    story.page("/503", text="open again")

    story.run()

    assert story.words("/503/301", "/503/302") == ["redirected", "redirected"]
    assert story.bare("/503/301")
    assert story.bare("/503/302")
    site.pages |= healthy

    story.run()

    assert story.words("/404/301", "/404/302", "/away/302") == ["unchanged"] * 3
    assert story.words("/503/302", "/fine/301") == ["new", "new"]
    assert (story["/away/302"]["lostCount"], story["/away/302"]["status"]) == (0, "Indexed")
    assert len(crawl.hits("treasure")) == 12


@pytest.mark.covers("M-21", "R4-39", "R4-42", "U-12", "R4-27")
def test_chains_of_five_hops_hold_and_longer_ones_and_circles_do_not(site: Site, crawl: Crawl):
    story = Story(site, crawl, others=20, LOST_THRESHOLD=1)
    held = ["/five", "/six", "/loop/a", "/loop/b", "/self", "/nowhere"]
    story.home(*held)
    for path in held:
        story.page(path, text=f"treasure of {path}")
    story.run()
    healthy = dict(site.pages)
    for name, hops in (("five", 5), ("six", 6)):
        places = [f"/{name}", *(f"/{name}/{n}" for n in range(1, hops + 1))]
        for here, there in pairwise(places):
            site.pages[here] = Page(redirect=there)
        story.page(places[-1], text=f"jewels of {name}")
    site.pages["/loop/a"] = Page(redirect="/loop/b")
    site.pages["/loop/b"] = Page(redirect="/loop/a", status=302)
    site.pages["/self"] = Page(redirect="/self")
    site.pages["/nowhere"] = Page(status=302)

    for lost in (1, 2):
        story.run()

        assert story.words(*held) == ["redirected"] + ["lost"] * 5
        numbers = [story[path]["httpStatusCode"] for path in held[1:]]
        assert numbers == [1004, 1002, 1002, 1002, 1003]
        assert [story[path]["lostCount"] for path in held] == [0] + [lost] * 5
        assert story.bare("/five")
        # A page that ended in a circle is asked for what may set a cookie on the way.
        assert story.asked("/five/4", "/six/5", "/loop/a", "/loop/b") == [1, 1, lost, 1]
        assert len(crawl.hits("treasure")) == 5
        assert crawl.hits("jewels") == ["/five/5", "/six/6"]
    assert story.removed() == {"/five": "redirect"}
    site.pages |= healthy

    story.run()

    assert story.words(*held) == ["new"] + ["unchanged"] * 5
    assert {story[path]["lostCount"] for path in held} == {0}
    assert crawl.hits("treasure") == held[:1] + sorted(held[1:])


@pytest.mark.parametrize("waits", [False, True])
def test_one_page_sent_home_goes_at_once_unless_it_is_pinned_or_every_removal_waits(
    site: Site, crawl: Crawl, *, waits: bool
):
    """What docs/faq.md says of it, and how to protect a page."""
    story = Story(site, crawl)
    if waits:
        story.settings |= {"SWEEP_MAX_RATIO": 0, "SWEEP_MIN_COUNT": 0}
    story.home("/away", "/pinned")
    story.page("/away", text="treasure in the attic")
    story.page("/pinned", text="treasure in the cellar")
    story.run()
    story.command("reindex", "--url", site.url("/pinned"))
    story.run()
    site.pages["/away"] = Page(redirect="/", status=302)

    first = story.run()
    site.pages["/away"] = html("/away", text="treasure in the attic")
    site.pages["/pinned"] = Page(redirect="/", status=302)
    story.run()

    assert story.removed() == ({} if waits else {"/away": "redirect"})
    assert ("1 removal is withheld" in first.out) is waits
    assert ("1 removed. To bring it back:" in first.out) is not waits
    assert crawl.hits("treasure") == ["/away", "/pinned"]


@pytest.mark.long(but=1)
@pytest.mark.covers("M-21", "R4-02", "R4-04", "U-06")
@pytest.mark.parametrize("status", [302, 303, 307])
def test_a_login_that_many_pages_lead_to_removes_none(site: Site, crawl: Crawl, status: int):
    story = Story(site, crawl, others=20, LOST_THRESHOLD=1)
    members = [f"/member/{n}" for n in range(12)]
    story.home(*members)
    for path in members:
        story.page(path, f"{path}/child", text=f"treasure of {path}")
        story.page(f"{path}/child", text="a child")
    story.run()
    healthy = dict(site.pages)
    story.page("/login", text="please log in")
    for path in members:
        site.pages[path] = Page(redirect=f"/login?next={path}", status=status)

    story.run()

    assert set(story.words(*members)) == {"lost"}
    assert {story[path]["status"] for path in members} == {"Error"}
    assert {story[path]["lostCount"] for path in members} == {1}
    assert set(story.words(*(f"{path}/child" for path in members))) == {"unchanged"}
    assert len(crawl.hits("treasure")) == 12
    assert story.removed() == {}
    assert len(crawl.hits("log in")) == 1  # the same page under twelve addresses
    site.pages |= healthy

    story.run()

    assert set(story.words(*members)) == {"unchanged"}
    assert {story[path]["lostCount"] for path in members} == {0}


@pytest.mark.covers("R4-37", "M-21", "U-06", "R1-02")
def test_a_page_that_left_the_site_for_good_goes_like_a_404(site: Site, other: Site, crawl: Crawl):
    """Its end is another site, or a page that robots.txt excludes."""
    other.pages["/"] = html("Elsewhere")
    # Listed statuses are no matter.
    choices = {"LOST_PURGE_STATUSES": "451"}
    story = Story(site, crawl, others=20, LOST_THRESHOLD=3, **choices)
    ends = {"/away": other.url("/"), "/hidden": "/private"}
    paths = [f"{path}/{status}" for path in ends for status in (301, 308)]
    for_now = [f"{path}/302" for path in ends]
    story.home(*paths, *for_now, "/long")
    for path in (*paths, *for_now, "/long"):
        story.page(path, text=f"treasure of {path}")
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /private\n")
    story.run()
    healthy = dict(site.pages)
    for path in (*paths, *for_now):
        base, status = path.rsplit("/", 1)
        site.pages[path] = Page(redirect=ends[base], status=int(status))
    site.pages["/long"] = Page(redirect="/hop", status=301)
    site.pages["/hop"] = Page(redirect=other.url("/"), status=308)

    for count in (1, 2):
        story.run()

        assert set(story.words(*paths, *for_now, "/long")) == {"lost"}
        counts = {(story[path]["lostCount"], story[path]["goneCount"]) for path in paths}
        assert counts == {(count, count)}
        assert {story[path]["goneCount"] for path in for_now} == {0}
        assert len(crawl.hits("treasure")) == 7
        assert story.hit('"treasure of /long"')["lost"] is True
    assert story.removed() == {}
    assert story["/long"]["errorMessage"] == f"moved to {other.url('/')}"
    assert f"moved to {other.url('/')}" in crawl.run("why", site.url("/away/301")).out
    site.pages["/away/308"] = healthy["/away/308"]

    story.run()

    gone = [path for path in paths if path != "/away/308"]
    assert story.removed() == dict.fromkeys([*gone, "/long"], "gone")
    assert story.words("/away/308") == ["unchanged"]
    assert set(story.words(*for_now)) == {"lost"}
    assert sorted(crawl.hits("treasure")) == sorted([*for_now, "/away/308"])
    assert other.log == []
    site.pages |= healthy

    story.run()

    assert set(story.words(*gone, "/long")) == {"new"}
    assert set(story.words(*for_now)) == {"unchanged"}


@pytest.mark.covers("M-21", "U-06", "R4-38")
@pytest.mark.parametrize("status", [301, 302])
def test_a_page_whose_redirects_end_at_a_404_goes_like_a_404(site: Site, crawl: Crawl, status: int):
    """Custom errors of ASP.NET: each deleted page leads to the error page, by its own address."""
    story = Story(site, crawl, others=20, LOST_THRESHOLD=2)
    ends = {f"/page/{n}": f"/error.aspx?aspxerrorpath=/page/{n}" for n in range(3)}
    story.home(*ends)
    for path in ends:
        story.page(path, text=f"treasure of {path}")
    story.run()
    for path, end in ends.items():
        site.pages[path] = Page(redirect=end, status=status)

    story.run()

    assert set(story.words(*ends)) == {"lost"}
    assert {story[path]["httpStatusCode"] for path in ends} == {404}
    assert "aspxerrorpath=/page/0, which does not exist" in story["/page/0"]["errorMessage"]
    assert len(crawl.hits("treasure")) == 3

    story.run()

    assert story.removed() == dict.fromkeys(ends, "gone")
    assert crawl.hits("treasure") == []


@pytest.mark.covers("R4-37", "M-21", "U-06", "U-10")
def test_a_page_that_left_by_way_of_a_temporary_redirect_is_lost_and_stays(
    site: Site, other: Site, crawl: Crawl
):
    """To https for good, and from there to a login on another host: it may be back."""
    other.pages["/"] = html("Elsewhere")
    choices = {"LOST_PURGE_STATUSES": "*"}
    story = Story(site, crawl, others=20, LOST_THRESHOLD=1, **choices)
    ends = {"/away": other.url("/"), "/hidden": "/private"}
    story.home(*ends)
    for path in ends:
        story.page(path, text=f"treasure of {path}")
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /private\n")
    story.run()
    healthy = dict(site.pages)
    for status, (path, end) in zip((302, 307), ends.items(), strict=True):
        site.pages[path] = Page(redirect=f"{path}/hop", status=301)
        site.pages[f"{path}/hop"] = Page(redirect=end, status=status)

    for count in (1, 2):
        story.run()

        assert set(story.words(*ends)) == {"lost"}
        assert {(story[p]["lostCount"], story[p]["goneCount"]) for p in ends} == {(count, 0)}
        assert [story[path]["httpStatusCode"] for path in ends] == [302, 307]
        assert other.url("/") in story["/away"]["errorMessage"]
        assert [hit["lost"] for hit in crawl.search("treasure")] == [True] * 2
    assert story.removed() == {}
    assert story.command("deltamerge", "-D").out == "nothing to remove\n"
    site.pages |= healthy

    story.run()

    assert set(story.words(*ends)) == {"unchanged"}

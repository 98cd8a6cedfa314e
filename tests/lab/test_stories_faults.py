"""Servers that are down, empty, moved or lying: nothing goes, and the table says why.

The thresholds are at their lowest, so that whatever could go would go at once.
"""

from collections.abc import Callable

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import Story, down
from tests.site_server import Page, Site, html

PAGES = [f"/page/{n}" for n in range(20)]
EAGER = {"LOST_THRESHOLD": 1, "ORPHAN_THRESHOLD": 1}


def begin(site: Site, crawl: Crawl, **settings: object) -> Story:
    """A site whose every page has a text and a child was crawled."""
    story = Story(site, crawl, others=10, **(EAGER | settings))
    story.home(*PAGES, text="treasure at home")
    for path in PAGES:
        story.page(path, f"{path}/child", text=f"treasure of {path}")
        story.page(f"{path}/child", text=f"jewels of {path}")
    story.run()
    assert findable(crawl) == (21, 20, 10)
    return story


def findable(crawl: Crawl) -> tuple[int, int, int]:
    """How many pages a search for each kind of text shows."""
    treasure, jewels, filler = map(crawl.hits, ("treasure", "jewels", "filler"))
    return len(treasure), len(jewels), len(filler)


def nothing_there(site: Site) -> None:
    site.pages.clear()


def login_for_all(site: Site) -> None:
    for path in [*site.pages, "/robots.txt"]:
        site.pages[path] = Page(redirect=f"/login?next={path}", status=302)
    site.pages["/login"] = html("Log in", text="please")


def with_head(site: Site, markup: str) -> None:
    """Put markup into the head of every page."""
    for path, page in site.pages.items():
        body = str(page.body if isinstance(page, Page) else page)
        site.pages[path] = Page(body.replace("<head>", f"<head>{markup}"))


def noindex_for_all(site: Site) -> None:
    with_head(site, '<meta name="robots" content="noindex">')


def canonical_for_all(site: Site) -> None:
    with_head(site, '<link rel="canonical" href="/">')


def empty_for_all(site: Site) -> None:
    site.pages |= dict.fromkeys(site.pages, Page(""))


def error_for_all(site: Site) -> None:
    site.pages |= {path: Page("oops", status=500) for path in site.pages}


def forbidden_for_all(site: Site) -> None:
    site.pages |= {path: Page("no", status=403) for path in [*site.pages, "/robots.txt"]}


def reset_for_all(site: Site) -> None:
    site.pages |= {path: Page(fault="reset") for path in site.pages}


def disallowed(site: Site) -> None:
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /\n", content_type="text/plain")


@pytest.mark.long(but=5)
@pytest.mark.covers("R4-02", "R4-04", "RD-07", "M-01", "U-08", "U-10", "U-13", "U-14")
@pytest.mark.parametrize(
    ("happens", "status", "word", "told"),
    [
        (nothing_there, 3, "lost", ["seed_failed", "withheld", "orphans", "--approve 2 --max"]),
        (login_for_all, 0, "lost", ["temporary_redirects"]),
        (noindex_for_all, 0, "excluded", ["withheld", "orphans", "--approve 2 --max 51"]),
        (empty_for_all, 3, "failed", ["seed_failed", "unreachable"]),
        (error_for_all, 3, "failed", ["seed_failed", "unreachable"]),
        (forbidden_for_all, 3, "lost", ["seed_failed"]),
        (reset_for_all, 3, "failed", ["seed_failed", "unreachable"]),
        (disallowed, 3, "orphaned", ["seed_failed", "excluded"]),
        (canonical_for_all, 0, "unchanged", ["canonical"]),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)  # fmt: skip
def test_an_answer_for_everything_removes_nothing(
    site: Site, crawl: Crawl, happens: Callable[[Site], None], status: int, word: str,
    told: list[str],
):  # fmt: skip
    story = begin(site, crawl)
    healthy = dict(site.pages)
    before = crawl.pages()
    happens(site)

    result = story.run(expect=status)

    assert {story[path]["lastOutcome"] for path in PAGES} == {word}
    assert findable(crawl) == (21, 20, 10)
    assert story.removed() == {}
    for path in PAGES:
        for key in ("contentHash", "httpEtag", "effectiveStatus"):
            assert story[path][key] == before[path][key] or word == "unchanged"
    assert all(words in result.out for words in told), result.out
    site.pages.clear()
    site.pages |= healthy

    story.run()

    assert set(story.words(*PAGES)) == {"unchanged"}
    assert {story[path]["status"] for path in before} == {"Indexed"}
    assert {story[path]["lostCount"] for path in before} == {0}
    assert story.removed() == {}
    pages = "SELECT count(*) FROM candidate JOIN record USING (no) WHERE url NOT LIKE '%login%'"
    assert crawl.rows(pages) == [(0,)]


@pytest.mark.covers("R4-40", "R4-42", "U-13", "RD-07", "M-27")
def test_a_host_that_is_down_for_days_loses_nothing(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    with down(site):
        for _ in range(2):
            result = story.run(expect=3)

            assert set(story.words(*PAGES)) == {"failed"}
            assert {story[path]["orphanAge"] for path in PAGES} == {0}
            assert site.url("/") in result.out
            assert findable(crawl) == (21, 20, 10)

    story.run()

    assert set(story.words(*PAGES, "/page/1/child")) == {"unchanged"}
    assert story.removed() == {}


@pytest.mark.covers("M-27", "R4-40", "U-13", "RD-07")
def test_rules_that_cannot_be_had_are_remembered_for_a_month(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    site.pages["/robots.txt"] = Page(
        "User-agent: *\nDisallow: /secret\n", content_type="text/plain"
    )
    story.home(*PAGES, "/secret", text="treasure at home")
    story.page("/secret", text="treasure that is secret")
    story.run()
    assert story.words("/secret") == ["excluded"]
    site.pages["/robots.txt"] = Page("later", status=503)

    story.run()  # by the rules of the run before

    assert set(story.words(*PAGES)) == {"unchanged"}
    assert (story.words("/secret"), story.asked("/secret")) == (["excluded"], [0])
    story.alter("UPDATE robots SET fetched_at = fetched_at - 31 * 86400")

    result = story.run(expect=3)

    assert set(story.words(*PAGES, "/")) == {"failed"}
    assert {request.path for request in site.log} == {"/robots.txt"}
    assert "robots" in result.out
    assert any(reason.startswith("robots_unknown") for reason in crawl.runs()[0]["reasons"])
    assert findable(crawl) == (21, 20, 10)
    assert story.removed() == {}
    assert {story[path]["status"] for path in PAGES} == {"Error"}
    del site.pages["/robots.txt"]

    story.run()

    assert set(story.words(*PAGES)) == {"unchanged"}
    assert story.words("/secret") == ["new"]


@pytest.mark.covers("RD-07", "M-21", "R4-37")
def test_a_seed_that_moved_to_another_host_removes_nothing(site: Site, other: Site, crawl: Crawl):
    other.pages["/"] = html("Elsewhere", text="treasure elsewhere")
    story = begin(site, crawl)
    for status in (301, 302):
        site.pages |= {
            path: Page(redirect=other.url(path), status=status) for path in [*PAGES, "/"]
        }

        result = story.run(expect=3)

        assert "seed_failed" in result.out
        assert findable(crawl) == (21, 20, 10)
        assert story.removed() == {}
    assert other.log == []


@pytest.mark.covers("RD-07")
def test_the_table_says_where_a_seed_moved_to(site: Site, other: Site, crawl: Crawl):
    story = begin(site, crawl)
    site.pages["/"] = Page(redirect=other.url("/new/home"))

    result = story.run(expect=3)

    assert other.url("/new/home") in result.out


@pytest.mark.covers("R4-02", "R1-02", "M-01", "R1-48")
def test_when_half_of_the_site_is_gone_the_rest_is_published(site: Site, crawl: Crawl):
    story = begin(site, crawl)
    story.answers(404, *PAGES)
    story.page("/other/1", text="fresh words")

    result = story.run()

    assert set(story.words(*PAGES)) == {"lost"}
    assert "20" in result.out
    assert "withheld" in result.out
    assert "--approve 2 --max 20" in result.out
    assert findable(crawl) == (21, 20, 9)
    assert crawl.hits("fresh") == ["/other/1"]
    assert story.removed() == {}

    result = story.run()

    assert {story[path]["lostCount"] for path in PAGES} == {2}
    assert "--approve 3 --max 20" in result.out
    assert findable(crawl) == (21, 20, 9)
    assert story.removed() == {}


def a_day_ahead(story: Story) -> None:
    """Let everything have happened a day later, as if the clock were set back now."""
    for table, columns in {
        "run": ("started_at", "finished_at"),
        "state": ("last_checked", "lost_since", "gone_since"),
        "record": ("first_seen", "last_changed", "last_indexed"),
        "robots": ("fetched_at",),
    }.items():
        changes = ", ".join(f"{column} = {column} + 86400" for column in columns)
        story.alter(f"UPDATE {table} SET {changes}")


@pytest.mark.covers("M-04", "R4-10", "R4-11")
def test_a_clock_that_was_set_back_removes_nothing_early(site: Site, crawl: Crawl):
    story = begin(
        site, crawl, LOST_MIN_AGE=3600, ORPHAN_MIN_AGE=3600, LOST_THRESHOLD=2, ORPHAN_THRESHOLD=2
    )
    story.home(*PAGES[2:], text="treasure at home")
    story.answers(404, "/page/5")
    story.run()
    a_day_ahead(story)
    story.page("/page/6", "/page/6/child", text="treasure of today")

    for age in (2, 3):
        story.run()

        assert story.words("/page/0", "/page/1", "/page/5") == ["orphaned", "orphaned", "lost"]
        assert [story[path]["orphanAge"] for path in PAGES[:2]] == [age, age]
        assert story["/page/5"]["goneCount"] == age
        assert story.words("/page/6") == ["modified" if age == 2 else "unchanged"]
        assert set(story.words(*PAGES[7:])) == {"unchanged"}
        assert findable(crawl) == (21, 20, 10)
        assert story.removed() == {}
    assert crawl.hits("today") == ["/page/6"]


@pytest.mark.covers("R4-10")
def test_without_a_least_age_a_clock_that_was_set_back_holds_nothing(site: Site, crawl: Crawl):
    story = begin(site, crawl, LOST_THRESHOLD=2, ORPHAN_THRESHOLD=2)
    story.home(*PAGES[1:], text="treasure at home")
    story.answers(404, "/page/5")
    story.run()
    a_day_ahead(story)

    story.run()

    assert story.words("/page/0", "/page/5") == ["deleted", "gone"]

"""Pages that were lost and then not reached, and the look at them (ADR 35)."""

import pytest

from smartcrawl.rules.model import Fault, Outcome, RemovalRule
from tests.registry.build import Desk, closing

HOME, PAGE = "http://a.example/", "http://a.example/page"
OTHERS = [f"http://a.example/{n}" for n in range(5)]
ELSEWHERE = "http://b.example/"


@pytest.fixture
def site(database: str) -> Desk:
    """Seven pages of one host and one of another, after a complete run."""
    desk = Desk()
    desk.open()
    for url in (HOME, PAGE, *OTHERS, ELSEWHERE):
        desk.index(url, f"words of {url}")
    desk.seal()
    return desk


def run(desk: Desk, *statuses: int, look: int | None = 200, alive: bool = True) -> list[str]:
    """One complete run; PAGE answers a status, or is not reached. Return what was looked at.

    ``alive``: whether the other pages of its host answer, or those of the other host alone.
    """
    desk.open()
    desk.reach(HOME, *OTHERS, ELSEWHERE)
    desk.write(touched=[desk.number(ELSEWHERE)])
    if alive:
        desk.write(touched=[desk.number(url) for url in (HOME, *OTHERS)])
    for url in () if alive else (HOME, *OTHERS):
        desk.write(desk.visit(url, outcome=Outcome.TRANSIENT, status=503))
    for status in statuses:
        desk.reach(PAGE)
        desk.write(desk.visit(PAGE, outcome=Outcome.HTTP_ERROR, status=status))
    looked_at = desk.verify({PAGE: look})
    desk.seal(look=False)
    return looked_at


@pytest.mark.long(but=18)
@pytest.mark.covers("R4-07", "M-05", "U-18")
@pytest.mark.parametrize(
    ("lost", "runs"), [(1, 2), (2, 1), (5, 1)], ids=["lost once", "lost twice", "lost often"]
)
@pytest.mark.parametrize("look", [403, 401, 451, 404, 204, int(Fault.BAD_RESPONSE)])
def test_a_lost_page_goes_when_the_sum_is_reached(site: Desk, lost: int, runs: int, look: int):
    for _ in range(lost):
        run(site, 403)
    for _ in range(runs - 1):
        assert run(site, look=look) == []
        assert site.removed == []

    assert run(site, look=look) == [PAGE]

    assert [(page.url, page.word) for page in site.removed] == [(PAGE, "deleted")]
    assert site.value("SELECT rule FROM evidence") == RemovalRule.ORPHAN


@pytest.mark.long(but=10)
@pytest.mark.covers("R4-07", "U-18")
@pytest.mark.parametrize(
    "look", [200, 304, 406, 408, 425, 429, 500, 503, int(Fault.CHALLENGE), int(Fault.TIME_OUT)]
)
def test_a_lost_page_stays_when_the_look_finds_no_loss(site: Desk, look: int):
    for _ in range(2):
        run(site, 403)

    assert run(site, look=look) == [PAGE]

    assert site.removed == []
    waits = site.value("SELECT count(*) FROM candidate WHERE no = ?", (site.number(PAGE),))
    assert waits == (look not in (200, 304)), "nothing speaks against a page that is there"


@pytest.mark.covers("R4-07", "U-18")
def test_nothing_goes_while_no_other_page_of_the_host_answers(site: Desk):
    for _ in range(2):
        run(site, 403)

    run(site, look=403, alive=False)
    assert site.removed == []

    run(site, look=403)
    assert [page.url for page in site.removed] == [PAGE]


@pytest.mark.covers("R4-07", "U-18")
@pytest.mark.parametrize("what", ["a sitemap", "soft 404s", "pages of an earlier run"])
def test_only_pages_that_answer_in_this_run_speak_for_their_host(site: Desk, what: str):
    for _ in range(2):
        run(site, 403)
    site.open()
    site.reach(ELSEWHERE)
    site.write(touched=[site.number(ELSEWHERE)])
    if what == "a sitemap":
        site.connection.execute("UPDATE record SET kind = 1 WHERE url = ?", (HOME,))
        site.reach(HOME)
        site.write(touched=[site.number(HOME)])
    if what == "soft 404s":
        site.reach(HOME, *OTHERS)
        for url in (HOME, *OTHERS):
            site.write(site.visit(url, outcome=Outcome.SOFT_404))
    assert PAGE in site.verify({PAGE: 403})

    site.seal(look=False)

    assert site.removed == []


@pytest.mark.covers("R4-07", "M-05", "U-18")
def test_a_page_that_was_never_lost_is_absent_for_both_thresholds(site: Desk):
    for age in range(1, 6):
        assert run(site, look=403) == ([PAGE] if age >= 3 else [])
        assert site.removed == []

    run(site, look=403)

    assert [page.url for page in site.removed] == [PAGE]


def test_a_lost_page_that_robots_exclude_by_now_ages_by_its_absence_alone(site: Desk):
    for _ in range(2):
        run(site, 403)
    for _ in range(2):
        run(site, look=None)
        assert site.removed == []

    run(site, look=None)

    assert site.value("SELECT rule FROM evidence") == RemovalRule.EXCLUDED


@pytest.mark.covers("R4-12")
def test_the_guard_counts_lost_orphans_too(site: Desk):
    site.closing = closing(max_ratio=0.0, min_count=0)
    for _ in range(2):
        run(site, 403, look=403)

    run(site, look=403)

    assert site.removed == []
    assert site.value("SELECT count(*) FROM candidate WHERE withheld") == 1

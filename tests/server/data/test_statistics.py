"""Statistics of the frontier, and the status of all items (E-09, E-17)."""

import threading

import pytest

from smartcrawl.rules.schedule import DAY
from smartcrawl.server import frontier, search
from smartcrawl.server.answers import FrontierDue, FrontierStats, SearchStatus
from smartcrawl.server.frontier import MOST_HOSTS
from tests.server.api_client import error_of
from tests.server.data.library import NOW, Library

FRONTIER = "/api/v1/frontier/stats"
STATUS = "/api/SearchStatus"
DUE = "/api/v1/frontier/due"
MIDNIGHT = NOW - NOW % DAY


def address(number: int, host: str = "example.com") -> str:
    return f"https://{host}/{number}"


@pytest.mark.parametrize(
    ("path", "work"), [(FRONTIER, "api_frontier"), (STATUS, "api_search_status")]
)
def test_statistics_are_counted_beside_the_event_loop(
    library: Library, monkeypatch: pytest.MonkeyPatch, path: str, work: str
):
    threads: list[threading.Thread] = []
    module = frontier if path == FRONTIER else search
    count = getattr(module, work)

    def noted(*given: object) -> object:
        threads.append(threading.current_thread())
        return count(*given)

    monkeypatch.setattr(module, work, noted)
    library.read(path)

    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.covers("E-09", "R2-36")
def test_the_frontier_has_what_is_due_and_what_is_delayed(library: Library):
    for number in range(3):
        library.put(address(number), next_visit=NOW - number)
    library.put(address(3), next_visit=None)
    library.put(address(4), NOW + 86_400, next_visit=NOW + 1)
    library.put(address(5, "other.example"), next_visit=NOW + 86_400)
    library.put(address(6), status=5, next_visit=NOW)
    library.put(address(7), NOW + 86_401, next_visit=NOW + 10**7)  # by a clock that was wrong

    found = library.read(FRONTIER)

    assert found == {
        "total_urls": 7,
        "by_priority": {"5": 7},
        "by_domain": {"example.com": 6, "other.example": 1},
        "ready_to_crawl": 5,
        "delayed": 2,
    }
    assert list(found["by_domain"]) == ["example.com", "other.example"]
    FrontierStats.model_validate(found)


@pytest.mark.covers("E-09", "R2-36")
@pytest.mark.parametrize(
    ("change", "ready"),
    [
        ("UPDATE host SET is_blocked = TRUE", 0),
        ("UPDATE host SET retry_after_at = {now} - 10, retry_after = 11", 0),
        ("UPDATE host SET retry_after_at = {now} - 10, retry_after = 9", 1),
        ("UPDATE host_now SET parked_until = {now} + 1", 0),
        ("UPDATE host_now SET parked_until = {now}", 1),
        ("UPDATE host_now SET paused_until = {now} + 1", 0),
        ("UPDATE host_now SET is_down = TRUE", 1),  # in a run that is over
        ("UPDATE run SET complete = FALSE", 1),
    ],
)
def test_addresses_of_hosts_that_may_not_be_asked_are_delayed(
    library: Library, change: str, ready: int
):
    library.put(address(1), next_visit=NOW)
    library.execute(
        "INSERT INTO host_now (host, run, at, delay_ms, in_flight) VALUES (1, 1, 1, 1, 0)"
    )
    library.execute(change.format(now=NOW))
    found = library.read(FRONTIER)

    assert (found["total_urls"], found["ready_to_crawl"]) == (1, ready)
    assert found["ready_to_crawl"] + found["delayed"] == 1


@pytest.mark.covers("E-09", "R2-36")
def test_what_an_open_run_has_reached_is_ready_and_what_none_reaches_does_not_wait(
    library: Library,
):
    library.put(address(1), next_visit=NOW + 9)
    library.put(address(2), next_visit=NOW)
    library.execute(
        "INSERT INTO run (no, source, number, started_at, complete, finished_at)"
        " VALUES (2, 1, 2, 1, TRUE, 3), (3, 1, 3, 1, FALSE, NULL)"
    )
    library.put(address(3), next_visit=NOW + 9, reached_run=3)
    library.put(address(4), next_visit=NOW + 9, reached_run=3, visited_run=3)
    found = library.read(FRONTIER)

    assert (found["total_urls"], found["ready_to_crawl"], found["delayed"]) == (2, 1, 1)


@pytest.mark.covers("E-09")
def test_only_the_largest_hosts_are_listed_and_all_are_counted(library: Library):
    urls = [(address(n, f"h{n:04}.example"), NOW) for n in range(MOST_HOSTS + 5)]
    library.put_all([*urls, (address(0, "large.example"), NOW), (address(1, "large.example"), NOW)])
    found = library.read(FRONTIER)

    assert found["total_urls"] == MOST_HOSTS + 7
    assert len(found["by_domain"]) == MOST_HOSTS
    assert next(iter(found["by_domain"].items())) == ("large.example", 2)


@pytest.mark.covers("E-17", "R0-78")
def test_the_status_counts_items_lost_ones_and_orphans(library: Library):
    for status, number in enumerate((2, 3, 4, 5, 6, 7)):
        for one in range(number):
            standing = 2 if status in (1, 2) else 0
            library.put(address(one + 100 * status), status=status, standing=standing)
    library.execute("UPDATE state SET lost_count = 1 WHERE no = 3")
    library.execute("UPDATE run SET counts = ?", ('{"modified": 1, "unchanged": 3, "new": 2}',))
    library.execute("UPDATE state SET reached_run = 0, seen_run = 0 WHERE no = 4")
    library.execute(
        "INSERT INTO run (no, source, number, started_at, finished_at) VALUES (0, 1, 1, 1, 2)"
    )
    found = library.read(STATUS)

    assert found == {
        "items": {
            "Pending": 2, "Crawled": 3, "Indexed": 4, "Error": 5, "OutOfScope": 6, "Gone": 7
        },
        "indexed": 4,
        "changeRate": 0.25,
        "errorRate": 0.4167,
        "lost": 1,
        "orphans": 1,
    }  # fmt: skip
    SearchStatus.model_validate(found)


@pytest.mark.covers("E-09", "E-17")
def test_an_empty_registry_has_zeros(library: Library):
    assert library.read(FRONTIER) == {
        "total_urls": 0,
        "by_priority": {},
        "by_domain": {},
        "ready_to_crawl": 0,
        "delayed": 0,
    }
    found = library.read(STATUS)
    assert set(found["items"].values()) == {found["indexed"], found["lost"], 0}
    assert (found["changeRate"], found["errorRate"]) == (None, None)


@pytest.mark.parametrize("path", [FRONTIER, STATUS, DUE])
def test_an_answer_is_computed_anew_after_ten_seconds(library: Library, path: str):
    answers = []
    for seconds in (0, 9, 1):
        library.now += seconds
        library.put(address(int(library.now)))
        answers.append(library.read(path))

    assert answers[0] == answers[1] != answers[2]


@pytest.mark.parametrize("path", [FRONTIER, STATUS, DUE])
def test_parameters_are_refused(library: Library, path: str):
    answer = library.get(f"{path}?source=one")

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == "source"


def test_visits_are_counted_by_the_days_on_which_they_are_due(library: Library):
    times = [None, NOW - 5, NOW, NOW + 1, MIDNIGHT + DAY - 1, MIDNIGHT + DAY,
             MIDNIGHT + 14 * DAY - 1, MIDNIGHT + 14 * DAY, NOW + 90 * DAY]  # fmt: skip
    for number, moment in enumerate(times):
        library.put(address(number), next_visit=moment)
    library.put(address(20), status=5, next_visit=NOW)
    library.put(address(21), NOW + 86_401, next_visit=NOW + 10**7)  # by a clock that was wrong
    library.execute(
        "INSERT INTO pending_pin (source, id, url, host, at, priority)"
        " VALUES ('one', ?, 'https://example.com/new', 'example.com', 5, 1)",
        (bytes(32),),
    )
    found = library.read(DUE)

    days = {day["date"]: day["count"] for day in found["days"]}
    assert (found["at"], found["due"], found["later"]) == ("2025-06-15T15:06:40Z", 5, 2)
    assert len(days) == 14
    assert {date: count for date, count in days.items() if count} == {
        "2025-06-15": 2, "2025-06-16": 1, "2025-06-28": 1
    }  # fmt: skip
    total = found["due"] + found["later"] + sum(days.values())
    assert total == library.read(FRONTIER)["total_urls"] == 11
    FrontierDue.model_validate(found)


def test_what_no_complete_run_reaches_is_not_due(library: Library):
    library.put(address(1), next_visit=NOW)
    library.execute(
        "INSERT INTO run (no, source, number, started_at, complete, finished_at)"
        " VALUES (2, 1, 2, 1, TRUE, 3)"
    )
    library.put(address(2), next_visit=NOW, reached_run=2)

    assert library.read(DUE)["due"] == 1

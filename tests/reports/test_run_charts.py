"""Pictures of runs, with their findings and numbers."""

from typing import Any

import pytest

from smartcrawl.model.times import iso_time
from smartcrawl.reports.run_charts import run_changes_chart, run_requests_chart, run_stored_chart
from tests.registry.build import NOW


def sample(seconds: int, requests: int, same: int = 0, failed: int = 0) -> dict[str, Any]:
    return {
        "at": iso_time(NOW + seconds), "seconds": seconds, "visited": requests, "waiting": 7,
        "requests": requests, "notModified": same, "failed": failed, "bytesDownloaded": 0,
    }  # fmt: skip


def run(number: int, *changes: int, held: int | None = None, ended: bool = True) -> dict[str, Any]:
    names = ("new", "modified", "lost", "removed")
    counts = dict(zip(names, changes or (0, 0, 0, 0), strict=True))
    return {"run": number, "held": held, "finishedAt": "x" if ended else None, **counts}


def test_requests_of_a_run_have_their_mean_and_their_peak():
    chart = run_requests_chart([sample(0, 0), sample(10, 10, 4), sample(20, 50, 34, 1)])

    assert chart is not None
    assert chart.title == (
        "2.5 requests a second on average, 4.0 at most; 34 answers 304; 1 page failed"
    )
    assert chart.columns[:4] == (
        *("Until", "Requests a second", "304 a second", "Failed a second"),
    )
    assert chart.rows == [
        ("2025-06-15T15:06:50Z", 1.0, 0.4, 0.0, 10, 7),
        ("2025-06-15T15:07:00Z", 4.0, 3.0, 0.1, 50, 7),
    ]
    assert "time, UTC, from 2025-06-15 15:06" in chart.svg


@pytest.mark.parametrize("samples", [[], [sample(0, 0)], [sample(5, 0), sample(5, 3)]])
def test_a_rate_needs_two_moments(samples: list[dict[str, Any]]):
    assert run_requests_chart(samples) is None


def test_a_run_without_requests_says_so():
    chart = run_requests_chart([sample(0, 0), sample(1, 0)])

    assert chart is not None
    assert chart.title == "No request in 1 second"


def test_of_many_samples_several_become_one_and_none_is_lost():
    chart = run_requests_chart([sample(10 * n, 20 * n) for n in range(360)])

    assert chart is not None
    assert len(chart.rows) <= 121
    assert {row[1] for row in chart.rows} == {2.0}
    assert chart.rows[-1][0] == iso_time(NOW + 3_590)


def test_changes_name_the_run_that_changed_most():
    chart = run_changes_chart([run(1, 30, 0, 0, 0), run(2, 1, 40, 0, 2), run(3, ended=False)])

    assert chart is not None
    assert chart.title == "Run 2 changed most: 1 new, 40 modified, 2 removed"
    assert chart.columns == ("Run", "New", "Modified", "Lost", "Removed")
    assert chart.rows == [(1, 30, 0, 0, 0), (2, 1, 40, 0, 2)]
    still = run_changes_chart([run(1), run(2)])
    assert still is not None
    assert still.title == "Nothing changed in 2 runs"


@pytest.mark.parametrize(
    ("last", "title"),
    [
        (30, "30 pages stored after run 4, 10 more than after run 1"),
        (1, "1 page stored after run 4, 19 fewer than after run 1"),
        (20, "20 pages stored after run 4, as many as after run 1"),
    ],
)
def test_stored_pages_are_compared_with_the_first_run(last: int, title: str):
    runs = [run(1, held=20), run(2, held=None), run(4, held=last)]
    chart = run_stored_chart(runs)

    assert chart is not None
    assert chart.title == title
    assert chart.rows == [(1, 20), (4, last)]


@pytest.mark.parametrize("draw", [run_changes_chart, run_stored_chart])
def test_one_run_is_no_line(draw: Any):
    assert draw([]) is None
    assert draw([run(1, held=3), run(2, ended=False)]) is None

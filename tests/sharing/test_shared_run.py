"""What a worker takes over from the others of its run."""

from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.items import StoredRobots
from smartcrawl.shared_run import SharedRun

BEGAN = 1_750_000_000


@pytest.mark.parametrize(("read_at", "counts"), [(-1, False), (0, True), (1, True)])
def test_worker_asks_no_robots_txt_that_another_read_since_the_run_began(
    read_at: int, counts: bool
):
    """Times are whole seconds: workers that start together read it in the second of the start."""
    kept = StoredRobots(BEGAN + read_at, 200, body=b"User-agent: *\nCrawl-delay: 1\n")
    worker: Any = SimpleNamespace(
        robots=SimpleNamespace(get={"http://a.example": kept}.get),
        opened=SimpleNamespace(started_at=BEGAN),
    )

    found = SharedRun.robots_of_others(worker, "http://a.example")

    assert found is (kept if counts else None)
    assert SharedRun.robots_of_others(worker, "http://b.example") is None

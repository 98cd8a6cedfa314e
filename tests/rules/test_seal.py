"""When a run is complete (docs/decisions.md)."""

import pytest

from smartcrawl.rules.seal import Evidence, reasons

WHOLE = {"seeds_failed": (), "cut_by": (), "visits": 100, "unreachable": 0, "pending": 0}


@pytest.mark.covers("RD-07")
@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({}, None),
        ({"unreachable": 10}, None),
        ({"unreachable": 11}, "unreachable: 11 of 100 visits"),
        ({"seeds_failed": ("http://a.example/",)}, "seed_failed: http://a.example/"),
        ({"cut_by": ("max_pages",)}, "max_pages"),
        ({"pending": 1}, "pending: 1"),
        ({"visits": 0}, "no_pages"),
    ],
)
def test_every_gap_is_a_reason(told, reason):
    found = reasons(Evidence(**(WHOLE | told)))

    assert found == (() if reason is None else (reason,))

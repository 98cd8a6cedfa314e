"""Values of a batch, on their own."""

import pytest

from smartcrawl.model.batches import HostNow


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        (HostNow(), False),
        (HostNow(delay_ms=500), False),
        (HostNow(in_flight=1), True),
        (HostNow(parked_until=9), True),
        (HostNow(paused_until=9), True),
        (HostNow(is_down=True), True),
    ],
)
def test_a_host_that_waits_or_is_asked_will_change_without_a_further_answer(
    now: HostNow, changes: bool
):
    assert now.will_change is changes

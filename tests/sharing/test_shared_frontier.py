"""What a worker knows of the run that it shares (design.md 9)."""

from typing import Any, cast

import pytest

from smartcrawl.frontiers.connection import connect
from smartcrawl.frontiers.shared import Waiting
from smartcrawl.sharing.frontier import SharedFrontier
from tests.frontiers.stepped import Stepped


def test_a_worker_that_ends_a_run_knows_that_others_took_the_last_it_may_ask_for(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
):
    """R2-21: else the run would be cut, and not by max_pages."""
    with connect(redis_url) as client:
        ours, other = (
            Stepped(client, "docs", 7, per_host=100, most=2, worker=name) for name in "ab"
        )
        ours.begin()
        ours.offer(Waiting(number, "h.example", 1) for number in (1, 2, 3))
        nobody = cast("Any", None)
        shared = SharedFrontier(
            ours, nobody, readers=(nobody, nobody), retried=nobody, limited=True, capacity=1
        )
        monkeypatch.setattr(shared, "_look", lambda moves: True)
        shared.arrived(ours.exchange())
        assert not shared.spent
        other.begin()
        other.ack(other.claim(2))

        assert shared.looked()
        assert shared.spent

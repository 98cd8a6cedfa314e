"""A worker of a shared run, with nothing behind it."""

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from smartcrawl.run.shared.workers import SharedWorkers
from tests.choices import options


class Seeds:
    """Seeds whose visits by other workers are followed."""

    all = (1,)

    def __init__(self) -> None:
        self.followed = 0

    def follow_visited(self) -> None:
        self.followed += 1


@pytest.mark.parametrize(("ad_hoc", "followed"), [(False, 0), (True, 2)])
def test_a_scope_moves_with_the_visits_of_others_only_for_an_address_by_hand(
    ad_hoc: bool, followed: int, tmp_path: Path
):
    """Until its seeds are visited; the scope of a declared source is what it declares."""
    absent = cast("Any", None)
    database = SimpleNamespace(connect=lambda **_: absent, translated=lambda doing: nullcontext())
    workers: Any = SharedWorkers(
        source=cast("Any", SimpleNamespace(ad_hoc=ad_hoc)),
        options=options(tmp_path),
        registry=cast("Any", SimpleNamespace(database=database)),
        opened=cast("Any", SimpleNamespace(no=7, over=False)),
        membership=absent,
        redis=absent,
        robots=absent,
        limited=False,
    )
    visited: Iterator[bool] = iter((False, True))
    workers._reader = SimpleNamespace(
        reached=lambda numbers: [SimpleNamespace(visited=next(visited)) for _ in numbers]
    )
    seeds = Seeds()
    for _ in range(3):
        workers._follow_seeds(seeds)

    assert seeds.followed == followed

"""A worker of a shared run, with nothing behind it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from smartcrawl.model.exceptions import SinkError
from smartcrawl.run.ending import RunEnding
from smartcrawl.run.shared.workers import SharedWorkers
from tests.choices import options


class Seeds:
    """Seeds whose visits by other workers are followed."""

    all = (1,)

    def __init__(self) -> None:
        self.followed = 0

    def follow_decided(self) -> None:
        """Nothing: no other worker decided about the scope."""

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
        data=absent,
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


@pytest.mark.parametrize("leaves", [True, False])
def test_a_run_ended_here_only_where_this_worker_sealed_it(leaves: bool):
    """The worker that ended it embeds what is owed, and no other."""
    parts = dict.fromkeys(signature(RunEnding).parameters, cast("Any", None))
    ended: list[str] = []
    last = SimpleNamespace(
        leave=lambda why, now: "left" if leaves else None, ended=lambda: ended.append("ended")
    )
    ending: Any = RunEnding(
        **parts
        | {
            "workers": SimpleNamespace(opened=SimpleNamespace(no=1, shared=True), last_steps=last),
            "registry": SimpleNamespace(end=lambda *_, shared: "sealed"),
            "site_lists": SimpleNamespace(renew=lambda run, now: ended.append("listed")),
        }
    )
    ending.reasons, ending._ending = (), lambda now: None

    assert ending.finish("finished", None, 5, lambda removed: None) == (
        "left" if leaves else "sealed"
    )
    assert ending.ended_here is not leaves
    assert ended == ([] if leaves else ["listed", "ended"])


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (None, []),
        (SinkError("the index is away"), ["the index is away"]),
        (ValueError("odd"), ["the run cannot go on (ValueError: odd)"]),
    ],
)
def test_an_error_of_a_worker_ends_its_run(error: Exception | None, told: list[str]):
    doing: list[str] = []
    failed: list[str] = []

    def translated(what: str) -> AbstractContextManager[None]:
        doing.append(what)
        return nullcontext()

    def work() -> None:
        if error is not None:
            raise error

    worker: Any = SimpleNamespace(_database=SimpleNamespace(translated=translated))
    SharedWorkers._guarded(worker, work, lambda why: failed.append(str(why)))()

    assert failed == told
    assert doing == ["read"], "the word in messages: cannot read PostgreSQL"

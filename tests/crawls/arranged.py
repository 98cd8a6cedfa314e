"""What a worker of a test does otherwise than others; imported before its command begins.

HASTE       seconds between two signs of life, and until a Redis that was filled anew hands out;
            one that stands still in a transaction loses it after two
CLOCK       seconds by which its clock is wrong
DIES_AT     FUNCTION FILE: the first worker that gets there, as FILE tells, sends itself SIGKILL
HALTS_AT    likewise, SIGSTOP
PATIENCE    seconds that it waits for a PostgreSQL that is away
BATCH       visits and new addresses with which a batch is full
"""

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from smartcrawl.model.batches import Batch
from smartcrawl.registry.commit.batch import RegistryCommit
from smartcrawl.registry.database import heartbeat, postgres, session
from smartcrawl.registry.runs import runs
from smartcrawl.run.collapses import Collapses
from smartcrawl.run.ending import RunEnding
from smartcrawl.run.shared import redis_frontier
from smartcrawl.run.shared.frontier import RegistryDesk
from smartcrawl.run.shared.redis_frontier import ClaimHeartbeat, RedisFrontier
from smartcrawl.run.shared.workers import SharedLastSteps

_OWNERS = (Collapses, RegistryCommit, RegistryDesk, RunEnding, SharedLastSteps)


def hurry(seconds: float) -> None:
    """Let workers be heard of more often, and wait for each other for a shorter time."""
    assert ClaimHeartbeat.__init__.__defaults__ == (redis_frontier.HEARTBEAT,)
    assert RedisFrontier.recover.__defaults__ == (redis_frontier.HEARTBEAT, 0)
    ClaimHeartbeat.__init__.__defaults__ = (seconds,)  # type: ignore[misc]
    RedisFrontier.recover.__defaults__ = (seconds, 0)  # type: ignore[attr-defined]
    heartbeat.BEAT = seconds  # type: ignore[misc]
    assert postgres.STANDSTILL == heartbeat.EXPIRY
    postgres.STANDSTILL = 2  # type: ignore[misc]


def set_clock(seconds: float) -> None:
    """Let this worker believe that it is later, or earlier."""
    right = time.time
    time.time = lambda: right() + seconds


def first(file: str) -> bool:
    """Whether this is the first worker that asks."""
    with suppress(FileExistsError):
        open(file, "x").close()  # it is one or none
        return True
    return False


def halted(work: Callable[..., Any], file: str, how: signal.Signals) -> Callable[..., Any]:
    """Return a function before which the first worker is halted."""

    @wraps(work)
    def halts(*args: Any, **options: Any) -> Any:
        if first(file):
            signal.pthread_kill(threading.get_ident(), how)  # this thread goes no step further
        return work(*args, **options)

    return halts


if "HASTE" in os.environ:
    hurry(float(os.environ["HASTE"]))
if "PATIENCE" in os.environ:
    waits: Any = postgres.PostgresDatabase.__init__.__kwdefaults__
    assert waits["patience"] == session.PATIENCE
    waits["patience"] = float(os.environ["PATIENCE"])
if "BATCH" in os.environ:
    Batch.MAX_VISITS = Batch.MAX_ADDRESSES = int(os.environ["BATCH"])  # type: ignore[misc]
if "CLOCK" in os.environ:
    set_clock(float(os.environ["CLOCK"]))
for given, how in (("DIES_AT", signal.SIGKILL), ("HALTS_AT", signal.SIGSTOP)):
    if given in os.environ:
        name, _, file = os.environ[given].partition(" ")
        owner, _, name = name.rpartition(".")
        place: Any = {each.__name__: each for each in _OWNERS}.get(owner, runs)
        setattr(place, name, halted(getattr(place, name), file, how))

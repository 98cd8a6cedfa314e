"""The exchanges with Redis, in a thread beside the event loop."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Final, Protocol

from smartcrawl.model.exceptions import FrontierError, FrontierLostError, SmartcrawlError
from smartcrawl.run.frontier.redis.exchanges import Exchange, FrontierClaim, FrontierNumber
from smartcrawl.run.frontier.redis.frontier import RedisFrontier
from smartcrawl.run.frontier.redis.hosts import SharedHosts

logger = logging.getLogger(__name__)

_POLL: Final = 0.05  #: seconds until an empty frontier is asked again, at first; then it doubles
_LONGEST_POLL: Final = 0.5
_LOOK: Final = 0.25  #: seconds between two checks for the end of the run
_PAUSE: Final = 0.5  #: seconds until an unreachable Redis is tried again
PATIENCE: Final = 600.0  #: seconds that Redis may be unreachable

#: An update of the shared record of a host.
HostAct = Callable[[SharedHosts], object]


class Desk(Protocol):
    """The courier's listener; all methods are called in the courier's thread."""

    def arrived(self, exchange: Exchange) -> None:
        """Process the result of an exchange."""

    def refill(self, lost: FrontierLostError | None) -> bool:
        """Fill Redis from the registry; ``lost`` is the error where Redis lost the frontier.

        Returns False where the run needs Redis no more.
        """

    @property
    def sealed(self) -> bool:
        """Whether another worker sealed the run, or closed it."""

    def looked(self) -> bool:
        """Return whether the run has no page left to ask; called when Redis has none."""

    def failed(self, error: SmartcrawlError) -> None:
        """End the work: it cannot go on."""


@dataclass(slots=True)
class _Post:
    """The messages of the next exchange."""

    found: list[FrontierNumber] = field(default_factory=list)
    landed: list[FrontierClaim] = field(default_factory=list)
    done: list[FrontierClaim] = field(default_factory=list)
    released: list[FrontierClaim] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.found or self.landed or self.done or self.released)


class Courier:
    """Sends one worker's found and ended numbers, and claims new ones, in a thread of its own.

    ``room`` returns how many more numbers the worker takes. Updates of hosts take effect before
    all messages that are sent after them, and are repeated where Redis did not answer.
    """

    def __init__(self, frontier: RedisFrontier, desk: Desk, room: Callable[[], int]) -> None:
        self._frontier = frontier
        self._desk = desk
        self._room = room
        self._post = _Post()
        self._acts: deque[HostAct] = deque()  #: may be repeated, so each must be idempotent
        self._woken = Condition()
        self._called = False  #: whether there are new messages
        self._ended = False
        self._away_since: float | None = None
        self._thread = Thread(target=self._work, name="courier", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def send(
        self,
        *,
        found: Iterable[FrontierNumber] = (),
        landed: Iterable[FrontierClaim] = (),
        done: Iterable[FrontierClaim] = (),
        released: Iterable[FrontierClaim] = (),
        acts: Iterable[HostAct] = (),
    ) -> None:
        """Queue messages and updates of hosts for the next exchange; from any thread."""
        with self._woken:
            post = self._post
            post.found.extend(found)
            post.landed.extend(landed)
            post.done.extend(done)
            post.released.extend(released)
            self._acts.extend(acts)
            self._called = True
            self._woken.notify()

    @property
    def carries(self) -> bool:
        """Whether messages were not sent yet."""
        return bool(self._post or self._acts)

    def stop(self) -> None:
        """Send the last messages, if Redis answers, and end."""
        with self._woken:
            self._ended = True
            self._woken.notify()
        if self._thread.is_alive():
            self._thread.join()

    # In the thread

    def _work(self) -> None:
        pause = 0.0
        looked = 0.0
        while True:
            ended = self._next(pause)
            post = _Post()
            try:
                post = self._taken()
                result = self._exchange(post, 0 if ended else max(0, self._room()))
                if ended:
                    return
                pause = self._wait_of(result, pause)
                idle = result.wait is None and not result.claims and not self.carries
                idle = idle or self._desk.sealed  # its numbers may still wait
                if idle and (post or time.monotonic() >= looked):
                    self._desk.looked()
                    looked = time.monotonic() + _LOOK
            except FrontierLostError as error:
                if ended:
                    return
                self.send(found=post.found)  # Redis may have been filled before their commit
                pause = _PAUSE if not self._refilled(error) else 0.0
            except FrontierError as error:
                if ended or self._gives_up(error):
                    return
                pause = _PAUSE
            except SmartcrawlError as error:
                self._desk.failed(error)
                return
            except Exception as error:  # otherwise the run waits for ever
                logger.exception("cannot share the frontier")
                why = f"cannot share the frontier ({type(error).__name__}: {error})"
                self._desk.failed(FrontierError(why))
                return

    def _next(self, pause: float) -> bool:
        """Wait for messages, at most ``pause`` seconds; return whether the courier is to end."""
        with self._woken:
            if not (self._called or self._ended):
                self._woken.wait(pause)
            self._called = False
            return self._ended

    def _taken(self) -> _Post:
        """Update the hosts, and return the messages of the next exchange."""
        while True:
            with self._woken:
                if not self._acts:
                    post, self._post = self._post, _Post()
                    return post
            self._acts[0](self._frontier.hosts)
            self._acts.popleft()

    def _exchange(self, post: _Post, want: int) -> Exchange:
        result = self._frontier.exchange(
            want, found=post.found, landed=post.landed, done=post.done, released=post.released
        )
        if self._away_since is not None:
            logger.warning("Redis is there again")
            self._away_since = None
        self._desk.arrived(result)
        return result

    def _wait_of(self, result: Exchange, before: float) -> float:
        """Return the seconds to wait for messages before the next exchange."""
        if self._room() <= 0:
            return _LONGEST_POLL
        if result.claims:
            return 0.0
        longest = min(_LONGEST_POLL, max(_POLL, 2 * before))
        return longest if result.wait is None else min(longest, max(result.wait, 0.001))

    def _refilled(self, why: FrontierLostError) -> bool:
        try:
            return self._desk.refill(why)
        except FrontierError as error:
            logger.warning("%s", error)
            return False

    def _gives_up(self, error: FrontierError) -> bool:
        """Whether to stop waiting for Redis: it was unreachable for longer than PATIENCE."""
        now = time.monotonic()
        if self._away_since is None:
            self._away_since = now
            logger.warning("%s; until then nothing new is asked for", error)
        if now - self._away_since < PATIENCE:
            return False
        self._desk.failed(error)
        return True

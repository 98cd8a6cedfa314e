"""Calls of the scripts, which Redis runs one at a time, each whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Any, Final

from redis import Redis
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ConnectionError,  # noqa: A004  # redis has names of Python's own
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    TimeoutError,  # noqa: A004  # likewise
)

from smartcrawl.model.exceptions import FrontierError
from smartcrawl.model.redaction import redacted_text

NAMES: Final = ("begin", "exchange", "host", "look", "lowered", "refill", "renew")
_TRIES: Final = 2  #: tries of a call: an idle connection may have ended

#: Remedies by class of error; the first class that fits counts.
_REMEDIES: Final = (
    (BusyLoadingError, "it is still loading its data; wait, then start again"),
    (AuthenticationError, "put a valid user and password into REDIS_URL"),
    (NoPermissionError, "give the user of REDIS_URL all commands on all keys (ACL SETUSER)"),
    (OutOfMemoryError, "raise maxmemory of this Redis, or give it more room"),
    (ReadOnlyError, "give the primary in REDIS_URL"),
    (TimeoutError, "check whether it is overloaded, or runs something slow (SLOWLOG GET)"),
    (ConnectionError, "start it, or correct REDIS_URL"),
)


def redis_failure(error: RedisError, doing: str) -> FrontierError:
    """Return an error of Redis as a message: the failed act, the reason and the remedy."""
    remedy = next((say for kind, say in _REMEDIES if isinstance(error, kind)), None)
    why = redacted_text(str(error)) or type(error).__name__
    return FrontierError(f"cannot {doing} ({why}); {remedy or 'see the log of Redis'}")


class RedisScripts:
    """The scripts of one Redis. ``place`` is its name in messages, without a password.

    A script is sent once, and then called by its SHA-1; it is sent again to a Redis that lost it.
    A call whose connection broke is repeated: every script is idempotent.
    """

    def __init__(self, client: Redis, place: str = "Redis") -> None:
        folder = files(__package__).joinpath("lua")
        common = folder.joinpath("common.lua").read_text("utf-8")
        self._place = place
        self._scripts: dict[str, Callable[..., Any]] = {
            name: client.register_script(
                f"{common}\n{folder.joinpath(f'{name}.lua').read_text('utf-8')}"
            )
            for name in NAMES
        }

    def run(self, name: str, prefix: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Call a script for the run whose keys begin with ``prefix``; return its answer.

        Raises:
            FrontierError: Redis did not answer, or refused; the call may have taken effect.
        """
        arguments = [prefix, json.dumps(call, separators=(",", ":"))]
        tries = _TRIES
        while True:
            tries -= 1
            try:
                answer = self._scripts[name](keys=[f"{prefix}run"], args=arguments)
            except (ConnectionError, TimeoutError) as error:
                if not tries or isinstance(error, AuthenticationError | BusyLoadingError):
                    raise redis_failure(error, f"share the frontier in {self._place}") from error
            except RedisError as error:
                raise redis_failure(error, f"share the frontier in {self._place}") from error
            except ValueError as error:  # as redis-py decodes it
                raise self.unread() from error
            else:
                return self._read(answer)

    def _read(self, answer: object) -> dict[str, Any]:
        try:
            found = json.loads(str(answer))
        except ValueError as error:
            raise self.unread() from error
        if not isinstance(found, dict):
            raise self.unread()
        return found

    def unread(self) -> FrontierError:
        """Return the error of an answer that no script of the frontier gives."""
        return FrontierError(
            f"the frontier in {self._place} has data that no worker wrote: find the other "
            "program that writes to it, and remove the keys of the source (docs/redis.md)"
        )

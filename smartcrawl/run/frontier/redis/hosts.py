"""The hosts of all runs in Redis: their politeness records and their robots.txt files."""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from dataclasses import asdict
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.model.batches import StoredRobots
from smartcrawl.run.frontier.redis.exchanges import redis_run_prefix
from smartcrawl.run.frontier.redis.scripts import RedisScripts, redis_failure

logger = logging.getLogger(__name__)


class SharedHosts:
    """Pauses, parks and delays hosts for every worker; hosts are names without port.

    The longest of all delays of a host counts. A worker that claims a number of a parked host
    calls ``unpark`` when the host answers, and ``park`` when it does not.

    ``limits`` are those of the frontier: the most requests in flight for each host, and the least
    seconds between two requests to it.

    Source: R2-43, R2-45, R2-46; ADR 30, 133.
    """

    def __init__(self, scripts: RedisScripts, prefix: str, limits: dict[str, Any]) -> None:
        self._scripts = scripts
        self._prefix = prefix
        self._limits = limits

    def pause(self, host: str, seconds: float) -> None:
        """Send a host no requests for some seconds, as it asked; a longer pause in force stays."""
        self._call(host, "pause", seconds=seconds)

    def park(self, host: str, seconds: float) -> int:
        """Send a host that does not answer no requests; afterwards one request at a time probes it.

        Returns how often in a row it was parked. Parking a parked host changes nothing: the failed
        request was made before.
        """
        return int(self._call(host, "park", seconds=seconds)["times"])

    def unpark(self, host: str) -> None:
        """Free a parked host that answered; a pause stays in force."""
        self._call(host, "unpark")

    def give_up(self, host: str) -> None:
        """Mark a host as down: its numbers are handed out at once, to end without a request."""
        self._call(host, "down")

    def set_delay(self, host: str, seconds: float) -> None:
        """Set the seconds between two requests to a host, which follow from its latency."""
        self._call(host, "pace", milliseconds=round(1000 * seconds))

    def robots_read(self, host: str, crawl_delay: float, *, asked: bool = True) -> None:
        """Record that the robots.txt of a host was read, and its Crawl-delay in seconds.

        ``asked``: it was fetched from the host just now, which counts as the host's last request.
        Where a run reads the robots.txt of several ports of a host, the longest delay counts.
        """
        self._call(host, "robots", milliseconds=round(1000 * crawl_delay), asked=asked)

    def _call(self, host: str, act: str, **more: Any) -> dict[str, Any]:
        call = {**self._limits, "host": host, "act": act, **more}
        return self._scripts.run("host", self._prefix, call)


class SharedRobots:
    """The robots.txt of each origin (scheme, host and port); ``ttl`` in seconds.

    One worker fetches a robots.txt, and the other workers read it here. A file that another run
    fetched counts if that was after the second in which this run ``began``. All files of this run
    count, because workers that start together fetch them in that very second. The registry stores
    them for longer, for times when the origin does not answer.

    Source: R2-41, R2-74, S-10; ADR 30.
    """

    def __init__(
        self,
        client: Redis,
        ttl: int,
        *,
        source: str = "",
        run: int = 0,
        registry: str = "",
        began: int = 0,
    ) -> None:
        self._client = client
        self._ttl = ttl
        self._run = redis_run_prefix(source, run, registry)
        self._began = began

    def get(self, origin: str) -> StoredRobots | None:
        """Return the robots.txt of an origin in this run; None: fetch it.

        Raises:
            FrontierError: Redis did not answer.
        """
        try:
            kept = self._client.get(_key(origin))
            run, robots = _read(str(kept)) if kept else (None, None)
        except RedisError as error:
            raise redis_failure(error, "read robots.txt out of Redis") from error
        except (ValueError, TypeError, KeyError, AttributeError):
            logger.warning(
                "the robots.txt of %s in Redis was written by another program and is ignored",
                origin,
            )
            return None
        if robots is None or (run != self._run and robots.fetched_at <= self._began):
            return None
        return robots

    def put(self, origin: str, robots: StoredRobots) -> None:
        """Store the robots.txt that an origin sent just now.

        Raises:
            FrontierError: Redis did not answer.
        """
        if not self._ttl:
            return  # it is to be fetched each time
        data = asdict(robots) | {"body": b64encode(robots.body).decode(), "run": self._run}
        try:
            self._client.set(_key(origin), json.dumps(data), ex=self._ttl)
        except RedisError as error:
            raise redis_failure(error, "keep robots.txt in Redis") from error


def _read(kept: str) -> tuple[object, StoredRobots]:
    """Return the prefix of the run that stored a robots.txt, and the robots.txt.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: no worker wrote it.
    """
    values = json.loads(kept)
    run = values.pop("run", None)
    robots = StoredRobots(**values | {"body": b64decode(values["body"], validate=True)})
    texts = (robots.etag, robots.last_modified)
    if not (
        type(robots.fetched_at) is type(robots.status) is int
        and all(text is None or isinstance(text, str) for text in texts)
    ):
        raise TypeError(kept)
    return run, robots


def _key(origin: str) -> str:
    return f"robots:{origin}"

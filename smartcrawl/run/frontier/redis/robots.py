"""A cache of robots.txt files in Redis, for the workers of all sources."""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from dataclasses import asdict

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.model.batches import StoredRobots
from smartcrawl.run.frontier.redis.keys import redis_run_prefix
from smartcrawl.run.frontier.redis.scripts import redis_failure

logger = logging.getLogger(__name__)


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
                "the robots.txt of %s in Redis was written by another program, and is not read",
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

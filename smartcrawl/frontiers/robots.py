"""The robots.txt of hosts, kept in Redis for the workers of all sources until it is too old."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from dataclasses import asdict

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.frontiers.scripts import failure
from smartcrawl.items import StoredRobots


class SharedRobots:
    """What the origins (scheme, host and port) said last; ``ttl`` in seconds.

    One worker asks for a robots.txt, the others read here what it said. The registry keeps it for
    longer, for when it cannot be had.

    Source: R2-41, R2-74, S-10; design.md 9.
    """

    def __init__(self, client: Redis, ttl: int) -> None:
        self._client = client
        self._ttl = ttl

    def get(self, origin: str) -> StoredRobots | None:
        """Return what an origin said; None when that is unknown or too old.

        Raises:
            FrontierError: Redis did not answer.
        """
        try:
            kept = self._client.get(_key(origin))
        except RedisError as error:
            raise failure(error, "read robots.txt out of Redis") from error
        if not kept:
            return None
        told = json.loads(str(kept))
        return StoredRobots(**told | {"body": b64decode(told["body"])})

    def put(self, origin: str, robots: StoredRobots) -> None:
        """Keep what an origin said just now.

        Raises:
            FrontierError: Redis did not answer.
        """
        if not self._ttl:
            return  # the operator wants it fetched each time
        told = asdict(robots) | {"body": b64encode(robots.body).decode()}
        try:
            self._client.set(_key(origin), json.dumps(told), ex=self._ttl)
        except RedisError as error:
            raise failure(error, "keep robots.txt in Redis") from error


def _key(origin: str) -> str:
    return f"robots:{origin}"

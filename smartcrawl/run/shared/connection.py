"""The connection to Redis, made as scrapy-redis makes it; the one file that knows scrapy-redis."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry
from scrapy_redis.connection import get_redis

from smartcrawl.model.exceptions import FrontierError, SettingError
from smartcrawl.run.shared.scripts import redis_failure

LEAST_VERSION: Final = (6, 2)
_PATIENCE: Final = 5.0  #: seconds to wait for an answer; scripts take milliseconds

#: A script that does what all scripts of the frontier need: read the time, write and delete.
_PROBE: Final = """
redis.call('TIME')
redis.call('SET', KEYS[1], '1', 'EX', 10)
return redis.call('DEL', KEYS[1])
"""


def connect_redis(url: str) -> Redis:
    """Connect to the Redis of ``url``, and check that it keeps all keys.

    The client repeats no command by itself: a claim whose reply was lost would be made twice
    (docs/redis.md).

    Raises:
        SettingError: ``url`` is no URL of a Redis.
        FrontierError: Redis does not answer, refuses the login, or cannot carry a frontier.
    """
    place = redis_place(url)
    try:
        client: Redis = get_redis(
            url=url,
            retry=Retry(NoBackoff(), 0),
            retry_on_timeout=False,
            decode_responses=True,
            protocol=2,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
        )
        client.connection_pool.make_connection()  # checks the options without connecting
    except (ValueError, TypeError, RedisError) as error:
        raise SettingError(
            f"REDIS_URL is {place!r}, with an option that is not supported ({error}): correct it"
        ) from error
    try:
        why = redis_refusal(_info(client))
        if why is None:
            client.eval(_PROBE, 1, f"smartcrawl:probe:{secrets.token_hex(8)}")
    except RedisError as error:
        client.close()
        if isinstance(error, ResponseError) and "DB index" in str(error):
            raise FrontierError(
                f"{place} has no such database ({error}): name one from 0 to 15 in REDIS_URL"
            ) from error
        raise redis_failure(error, f"use {place}") from error
    if why is not None:
        client.close()
        raise FrontierError(f"{place} {why}")
    return client


def redis_place(url: str) -> str:
    """Return the name of a Redis in messages: its URL without user, password and options.

    >>> redis_place("rediss://me:8c1f@redis.example:6380/2?ssl_cert_reqs=none")
    'rediss://redis.example:6380/2'
    >>> redis_place("unix://:8c1f@/run/redis.sock")
    'unix:///run/redis.sock'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def redis_refusal(info: Mapping[str, Any]) -> str | None:
    """Return why a Redis cannot carry a frontier, and the remedy; None: it can.

    ``info`` is the answer to INFO.

    >>> redis_refusal(
    ...     {"redis_version": "7.0.15", "role": "master", "maxmemory_policy": "noeviction"}
    ... )
    """
    version = str(info["redis_version"])
    if tuple(map(int, version.split(".")[:2])) < LEAST_VERSION:
        least = ".".join(map(str, LEAST_VERSION))
        return f"is Redis {version}, but {least} or newer is needed"
    if info.get("cluster_enabled"):
        return "is a Redis Cluster, which is not supported: give a single Redis in REDIS_URL"
    if info["role"] != "master":
        primary = f"{info.get('master_host', '?')}:{info.get('master_port', '?')}"
        return f"is a read-only replica: give its primary, {primary}"
    policy = info["maxmemory_policy"]
    if policy != "noeviction":
        return (
            f"evicts keys when its memory is full (maxmemory-policy {policy}), which "
            "would lose waiting pages: set maxmemory-policy to noeviction in redis.conf, "
            "and now with redis-cli CONFIG SET maxmemory-policy noeviction"
        )
    return None


def _info(client: Redis) -> dict[str, Any]:
    """Return the sections of INFO that ``redis_refusal`` reads."""
    info: dict[str, Any] = {}
    for section in ("server", "replication", "memory", "cluster"):
        info |= client.info(section)
    return info

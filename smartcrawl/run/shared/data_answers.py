"""The answers to requests for data that pages share, asked by one worker of a run for all."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.run.received import Answer, AnswerHeaders
from smartcrawl.run.shared.scripts import redis_run_prefix

logger = logging.getLogger(__name__)

KEPT: Final = 3_600  #: seconds that an answer counts for
MOST_SHARED: Final = 256 * 1024  #: bytes of a body; a longer one is asked by each worker
_CLAIM: Final = 30  #: seconds after which a worker that asks is taken for dead
_LOOK_AGAIN: Final = 0.05  #: seconds between two looks for the answer of another worker
_CLAIMED: Final = "?"  #: begins the value of a key that a worker has claimed, which asks now
#: Headers by which an answer is compared.
_HEADERS: Final = (b"etag", b"last-modified", b"location", b"content-type")
#: Deletes a claim, or sets the answer in its place, unless another worker has taken it.
_REPLACE: Final = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""


class SharedDataAnswers:
    """Answers of this run in Redis, by keys that say what was asked and under which condition.

    A worker claims a key, asks, and leaves the answer there; other workers wait for it. An error,
    a long answer and no answer are left to each worker, and so is everything while Redis is away.
    """

    def __init__(self, client: Redis, *, source: str, run: int, registry: str) -> None:
        self._client = client
        self._prefix = f"{redis_run_prefix(source, run, registry)}data:"
        self._me = _CLAIMED + secrets.token_hex(8)

    async def asked_once(
        self, key: str, ask: Callable[[], Awaitable[Answer | str]]
    ) -> Answer | str:
        """Return the answer that another worker got, or that of ``ask``; a text: why none."""
        found = await self._of_others(key)
        if found is not None:
            return found
        answer: Answer | str = ""
        try:
            answer = await ask()
        finally:
            self._leave(key, answer)
        return answer

    async def _of_others(self, key: str) -> Answer | None:
        """Return the answer of another worker, waiting for one that asks; None: ask it."""
        until = time.monotonic() + _CLAIM
        while time.monotonic() < until:
            try:
                kept = self._client.get(self._prefix + key)
                if kept is None:
                    if self._client.set(self._prefix + key, self._me, nx=True, ex=_CLAIM):
                        return None
                    continue
            except RedisError:
                return None
            if not str(kept).startswith(_CLAIMED):
                return _answer(str(kept))
            await asyncio.sleep(_LOOK_AGAIN)
        return None

    def _leave(self, key: str, answer: Answer | str) -> None:
        """Leave an answer to the other workers, or give up the claim."""
        kept = _kept(answer) if isinstance(answer, Answer) else ""
        with suppress(RedisError):  # the claim ends by itself
            self._client.eval(_REPLACE, 1, self._prefix + key, self._me, kept, str(KEPT))


def _kept(answer: Answer) -> str:
    """Return an answer as Redis keeps it; an empty string: each worker asks for itself."""
    if answer.status >= 400 or len(answer.body) > MOST_SHARED:
        return ""
    headers = AnswerHeaders(answer.headers)
    named = {name.decode(): headers.get(name) for name in _HEADERS}
    body = b64encode(answer.body).decode()
    return json.dumps({"url": answer.url, "status": answer.status, "headers": named, "body": body})


def _answer(kept: str) -> Answer | None:
    """Return an answer out of Redis; None: no worker wrote it."""
    try:
        values = json.loads(kept)
        headers = [
            (str(name).encode("latin-1"), value.encode("latin-1"))
            for name, value in values["headers"].items()
            if value is not None
        ]
        url, status = values["url"], values["status"]
        if type(url) is not str or type(status) is not int:
            raise TypeError("no answer")
        return Answer(url, status, headers, b64decode(values["body"], validate=True))
    except (ValueError, TypeError, KeyError, AttributeError):
        logger.warning("an answer in Redis was written by another program and is ignored")
        return None

"""A Bloom filter in Redis: which addresses were surely never registered."""

from __future__ import annotations

import hashlib
import math
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from redis import Redis
from redis.exceptions import RedisError

from smartcrawl.frontiers.keys import prefix_of_source
from smartcrawl.frontiers.scripts import failure

CAPACITY: Final = 1_000_000  #: ids
ERROR_RATE: Final = 0.001
_AT_ONCE: Final = 1_000  #: ids in one call
_LONGEST: Final = 86_400  #: seconds that filling may take

#: KEYS: the bits, the mark. ARGV: the mark, bits of each id, then the bits.
_LOOK: Final = """
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return nil
end
local each, found = tonumber(ARGV[2]), {}
for at = 3, #ARGV, each do
  local all = '1'
  for i = at, at + each - 1 do
    if redis.call('GETBIT', KEYS[1], ARGV[i]) == 0 then
      all = '0'
      break
    end
  end
  found[#found + 1] = all
end
return table.concat(found)
"""
_ADD: Final = """
for at = 3, #ARGV do
  redis.call('SETBIT', KEYS[1], ARGV[at], 1)
end
return redis.call('GET', KEYS[2]) == ARGV[1] and 1 or 0
"""
#: KEYS: the mark, what ``fill`` put down when it began. ARGV: the mark.
_END: Final = """
local whole = redis.call('DEL', KEYS[2])
if whole == 1 then
  redis.call('SET', KEYS[1], ARGV[1])
end
return whole
"""


class UrlFilter:
    """Answers "was this id ever registered in this source"; a yes is confirmed in the registry.

    It never keeps anything from being asked, and it only saves looking up what is new. It says no
    to nothing unless it is whole: a worker that commits an id adds it before, ``fill`` adds all
    ids of the registry, and a Redis that lost the bits lost the mark of that, too. One that came
    back with older data did not: then the frontier is lost as well, and ``spoil`` is called.

    With ``capacity`` ids one new id in 1 / ``error_rate`` is looked up in vain.

    Source: M-34, G-22, R2-41, S-10.
    """

    def __init__(
        self,
        client: Redis,
        source: str,
        *,
        capacity: int = CAPACITY,
        error_rate: float = ERROR_RATE,
    ) -> None:
        self._client = client
        self._bits = math.ceil(-capacity * math.log(error_rate) / math.log(2) ** 2)
        self._each = max(1, round(self._bits / capacity * math.log(2)))
        self._mark = f"{self._bits}/{self._each}"
        key = f"{prefix_of_source(source)}bloom:urls:{self._bits}"
        self._keys = [key, f"{key}:whole"]
        self._look = client.register_script(_LOOK)
        self._add = client.register_script(_ADD)
        self._end = client.register_script(_END)

    def known(self, ids: Sequence[bytes]) -> list[bool]:
        """Return for each id whether it may have been registered; all may when that is unknown.

        Raises:
            FrontierError: Redis did not answer.
        """
        found = ""
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            try:
                told = self._look(keys=self._keys, args=self._arguments(some))
            except RedisError as error:
                raise failure(error, "look addresses up in Redis") from error
            found += str(told) if told is not None else "1" * len(some)
        return [bit == "1" for bit in found]

    def add(self, ids: Sequence[bytes]) -> bool:
        """Add ids that are about to be committed; return whether the filter is whole.

        Raises:
            FrontierError: Redis did not answer: do not commit them while others use the filter.
        """
        whole = True
        for start in range(0, len(ids), _AT_ONCE):
            arguments = self._arguments(ids[start : start + _AT_ONCE])
            try:
                whole = bool(self._add(keys=self._keys, args=arguments)) and whole
            except RedisError as error:
                raise failure(error, "note addresses in Redis") from error
        return whole

    def fill(self, ids: Iterable[bytes]) -> bool:
        """Add every id that the registry holds; from then on the filter is whole.

        Workers that commit meanwhile add what they commit themselves. Returns False when Redis
        was flushed meanwhile: the filter is as it was then.

        Raises:
            FrontierError: Redis did not answer.
        """
        filling = f"{self._keys[1]}:{secrets.token_hex(8)}"
        try:
            self._client.set(filling, "1", ex=_LONGEST)
        except RedisError as error:
            raise failure(error, "note addresses in Redis") from error
        some: list[bytes] = []
        for one in ids:
            some.append(one)
            if len(some) == _AT_ONCE:
                self.add(some)
                some = []
        self.add(some)
        try:
            whole = self._end(keys=[self._keys[1], filling], args=[self._mark])
        except RedisError as error:
            raise failure(error, "note addresses in Redis") from error
        return bool(whole)

    def spoil(self) -> None:
        """Say yes to everything until ``fill``: some of the bits may be lost.

        Raises:
            FrontierError: Redis did not answer.
        """
        try:
            self._client.delete(self._keys[1])
        except RedisError as error:
            raise failure(error, "note addresses in Redis") from error

    def _arguments(self, ids: Iterable[bytes]) -> list[str | int]:
        return [self._mark, self._each, *(bit for one in ids for bit in self._places(one))]

    def _places(self, one: bytes) -> list[int]:
        """Return the bits of an id: every worker finds the same."""
        digest = hashlib.sha256(one).digest()
        first = int.from_bytes(digest[:8])
        step = int.from_bytes(digest[8:16]) | 1
        return [(first + i * step) % self._bits for i in range(self._each)]

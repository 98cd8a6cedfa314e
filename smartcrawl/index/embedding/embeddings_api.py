"""One request for vectors to ``/v1/embeddings``, by the official SDK, and the kinds of its failure.

The SDK neither repeats a request nor follows a redirect here: repeats are those of ``patience.py``,
and texts are sent to the configured host only.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx2  # the HTTP client of the SDK
import openai

from smartcrawl.index.openai_sdk import (
    openai_away_error,
    openai_client,
    openai_error_message,
    openai_headers,
    openai_lasting_remedy,
    openai_text_shown,
)
from smartcrawl.index.outage import AwayError
from smartcrawl.model.embedder_options import EmbedderOptions
from smartcrawl.model.exceptions import EmbedderError

_READ: Final = 1_000  #: characters of a server's message that are read
_MOST_BYTES: Final = 256 << 20  #: of an answer; 2,048 vectors of 4,000 numbers take 180 MB
#: Models that give shorter vectors when asked to; others refuse the parameter.
_SHORTENS: Final = re.compile(r"\btext-embedding-3")
#: Words of servers for a text, or a request, that is too long.
_TOO_LONG: Final = re.compile(
    r"too (?:long|large|many)|maxim|max_|exceed|length|context|token|\bsize\b|\blimit",
    re.IGNORECASE,
)
#: Words of servers that answer 500 to a text that is too long, and mean that text.
_INPUT_TOO_LONG: Final = re.compile(
    r"\b(?:input|prompt|text|sequence|tokens?)\b.{0,60}?\b(?:too (?:long|large|many)|exceeds?)\b",
    re.IGNORECASE,
)


class UnfitError(Exception):
    """The server refuses these texts, or its answer does not fit them; others may have vectors."""

    def __init__(self, reason: str, *, is_too_long: bool = False, lasting: bool = True) -> None:
        """``lasting``: the texts are refused; False: another answer may fit them."""
        super().__init__(reason)
        self.is_too_long, self.lasting = is_too_long, lasting


class EmbeddingsApi:
    """A server with ``/v1/embeddings``. Its ``repr`` and its errors contain no key."""

    def __init__(
        self,
        options: EmbedderOptions,
        key: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare the client; it connects with the first request.

        ``key`` empty: none is sent. ``clock`` measures seconds, ``now`` is Unix time.
        """
        self._model, self._url, self._key = options.model, options.url, key
        self._host, self._seconds = options.destination, options.timeout
        is_shortened = _SHORTENS.search(options.model)
        self._dimensions = options.dimension if is_shortened else openai.omit
        self._clock, self._now = clock, now
        self._client = openai_client(options, key, timeout=options.timeout)

    def embeddings(self, texts: Sequence[str]) -> tuple[list[object], str]:
        """Return the server's vector of each text, in order and unchecked, and its model's name.

        Raises:
            AwayError: it may answer later.
            UnfitError: it refuses these texts, or its answer is not one vector for each.
            EmbedderError: another request is of no use, such as with a wrong key.
        """
        try:
            with self._client.embeddings.with_streaming_response.create(
                input=list(texts),
                model=self._model,
                dimensions=self._dimensions,
                encoding_format="float",
                extra_headers=openai_headers(self._key),
            ) as response:
                body = self._body(response)
        except openai.APIStatusError as error:
            raise self._failure(error) from None
        except openai.APIConnectionError as error:
            raise AwayError(self._shown(_connection_reason(error))) from None
        except httpx2.HTTPError as error:  # while the body came
            raise AwayError(self._shown(f"its answer broke off: {error}")) from None
        return self._ordered(body, len(texts))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _body(self, response: Any) -> bytes:
        """Return the body of an answer that comes whole within the timeout."""
        end, pieces, size = self._clock() + self._seconds, [], 0
        for piece in response.iter_bytes():
            pieces.append(piece)
            size += len(piece)
            if size > _MOST_BYTES:
                raise AwayError(f"its answer has more than {_MOST_BYTES >> 20} MiB")
            if self._clock() > end:
                raise AwayError("its answer did not come whole within EMBEDDING_TIMEOUT_SECONDS")
        return b"".join(pieces)

    def _ordered(self, body: bytes, count: int) -> tuple[list[object], str]:
        """Return the vectors of an answer in the order of the texts, which ``index`` says."""
        try:
            answer = json.loads(body)
            data, model = answer["data"], str(answer.get("model") or "")
            found = {}
            for item in data:
                index = item.get("index", 0)
                if index in found:
                    reason = "its vectors cannot be assigned to the texts by their index"
                    raise UnfitError(reason, lasting=False)
                found[index] = item["embedding"]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise AwayError(
                f"its answer is none of /v1/embeddings, it begins {self._shown(_beginning(body))!r}"
            ) from None
        if found.keys() != set(range(count)):
            vectors = "1 vector" if len(found) == 1 else f"{len(found)} vectors"
            reason = f"it gave {vectors} for {count} text{'s' * (count != 1)}"
            raise UnfitError(reason, lasting=False)
        return [found[index] for index in range(count)], model

    def _failure(self, error: openai.APIStatusError) -> Exception:
        """Return the error for an answer with an error status."""
        status = error.status_code
        message = self._shown(f"{status}, {openai_error_message(error)}")
        if remedy := openai_lasting_remedy(error, "EMBEDDING_URL", self._key):
            return self._lasting(message, remedy)
        if status == 500 and _INPUT_TOO_LONG.search(openai_error_message(error)[:_READ]):
            return UnfitError(message, is_too_long=True)
        if away := openai_away_error(error, message, self._now()):
            return away
        if status in (400, 413, 422):
            too_long = status == 413 or _TOO_LONG.search(openai_error_message(error)) is not None
            return UnfitError(message, is_too_long=too_long)
        return self._lasting(message, "check EMBEDDING_URL, which ends in /v1, and EMBEDDING_MODEL")

    def _lasting(self, message: str, remedy: str) -> EmbedderError:
        return EmbedderError(f"{self._host} makes no vectors ({message}): {remedy}", lasting=True)

    def _shown(self, text: str) -> str:
        return openai_text_shown(text, self._key)


def _connection_reason(error: openai.APIConnectionError) -> str:
    if isinstance(error, openai.APITimeoutError):
        return "no answer within EMBEDDING_TIMEOUT_SECONDS"
    return f"no connection: {error.__cause__ or error}"


def _beginning(body: bytes) -> str:
    return body[:80].decode("utf-8", "replace").strip()

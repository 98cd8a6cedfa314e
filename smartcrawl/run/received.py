"""Answers of servers with their headers, as they were received."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

Lines = Iterable[tuple[bytes, bytes]]  #: names and values of headers, as received
MARKUP_TYPE: Final = "text/html; charset=utf-8"  #: Content-Type of the markup of a browser


class AnswerHeaders:
    """The headers of an answer by their names in lower case."""

    __slots__ = ("_values",)

    def __init__(self, lines: Lines) -> None:
        self._values: dict[bytes, list[bytes]] = {}
        for name, value in lines:
            self._values.setdefault(name.lower(), []).append(value)

    def __contains__(self, name: bytes) -> bool:
        """Whether there is a header of this name."""
        return name in self._values

    def get(self, name: bytes) -> str | None:
        """Return the last value of a header; None where it is missing or empty."""
        return self.raw(name).decode("latin-1") or None

    def raw(self, name: bytes) -> bytes:
        """Return the bytes of the last value of a header; empty where it is missing."""
        values = self._values.get(name)
        return values[-1] if values else b""

    def lines(self, name: bytes) -> tuple[str, ...]:
        """Return each value of a header, one for each of its lines."""
        return tuple(value.decode("latin-1") for value in self._values.get(name, ()))

    def joined(self) -> dict[str, str]:
        """Return all headers, the values of several lines joined by commas."""
        return {
            name.decode("latin-1"): b", ".join(values).decode("latin-1")
            for name, values in self._values.items()
        }


class Answer(NamedTuple):
    """The answer of a server to one request of a page."""

    url: str  #: that was requested
    status: int
    headers: Lines
    body: bytes  #: decoded
    latency: float = 0.0  #: seconds until the headers were received
    is_head: bool = False  #: whether the request was a HEAD
    has_validators: bool = False  #: whether the request had some; of a HEAD
    cookie: str = ""  #: Cookie of the request

    @property
    def content_type(self) -> str:
        """Its Content-Type as received; empty where it is missing."""
        return AnswerHeaders(self.headers).get(b"content-type") or ""

    def showing(self, markup: str) -> Answer:
        """Return the answer with the markup of a browser in the place of its body and headers."""
        headers = [(b"Content-Type", MARKUP_TYPE.encode())]
        return self._replace(headers=headers, body=encoded_markup(markup))


def encoded_markup(markup: str) -> bytes:
    """Return the markup of a browser as ``MARKUP_TYPE`` says; a lone surrogate becomes ``?``."""
    return markup.encode("utf-8", "replace")

"""Answers of servers, as the spider, the lane and tests without a network hand them to a run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import re2

from smartcrawl.extract.sniff import is_garbled_text
from smartcrawl.model.pages import Visit
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.rules.shield import MARKS, START, decide_challenge

Lines = Iterable[tuple[bytes, bytes]]  #: names and values of headers, as received


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


class NextRequest(NamedTuple):
    """The request with which a visit goes on."""

    url: str
    cookie: str = ""  #: "": none
    is_whole: bool = False  #: whether it is the GET after a HEAD: the rest is as in that request


def bot_wall_of_answer(status: int, headers: AnswerHeaders, body: bytes) -> str | None:
    """Return the name of the bot wall that answered instead of a page, None without one.

    Nearly every page has none of the signs. One search for all of them shows that, in a sixth of
    the time of a search for each.
    """
    read = body if _HINT.search(body[:START]) else b""
    return decide_challenge(status, headers.joined(), read)


def _hint() -> Any:
    """Return a pattern that matches every body with all signs of a mark."""
    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1  # bytes of any encoding
    signs = sorted({mark.signs[0] for mark in MARKS})
    either = "|".join(re.escape(sign).replace('"', "[\"']") for sign in signs)
    return re2.compile(either.encode(), options)


_HINT: Final = _hint()


BLANK: Final = b"\0\t\n\f\r "  #: bytes of an empty body

_EMPTY: Final = "status 200 with an empty body; the stored page stays"
_GARBLED: Final = (
    "the body is binary although its Content-Type is text: is it compressed twice, or "
    "without a Content-Encoding?"
)


def damage_of_body(visit: Visit, body: bytes, *, forced: bool) -> tuple[Fault, str] | None:
    """Return why a body is not that of its page, or None.

    ``forced``: an order of the operator accepts an empty body, and never a garbled one.

    Source: ADR 12, 20.
    """
    if not forced and _is_emptied(visit, body):
        return Fault.EMPTY, _EMPTY
    held = visit.page.state.standing is Standing.HELD
    content_type = visit.answer.content_type or ""
    if not visit.extracted_again and is_garbled_text(content_type, body, held=held):
        return Fault.BAD_ENCODING, _GARBLED
    return None


def _is_emptied(visit: Visit, body: bytes) -> bool:
    """Whether a 200 has an empty body, and the stored page had another one."""
    page = visit.page
    return (
        visit.outcome is Outcome.CHANGED
        and page.state.standing is Standing.HELD
        and not body.strip(BLANK)
        and visit.parsed.body_hash != page.record.body_hash
    )

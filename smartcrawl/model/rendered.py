"""Rendered pages as the registry has them: their requests for data, and what they were made of."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from smartcrawl.rules.render_need import Sample


@dataclass(slots=True)
class DataRow:
    """A request for data, with its last answer: a row of ``data_request``."""

    no: int  #: rules.data_requests.request_number
    method: str
    url: str  #: with marks in the place of the time
    kind: str  #: Document, Script, Worker, XHR or Fetch
    headers: Mapping[str, str]  #: of the request
    body: str  #: of the request
    has_cookie: bool  #: whether the page sent it with a cookie
    status: int
    etag: str | None
    last_modified: str | None
    digest: bytes  #: of the answer (rules.data_requests.answer_digest)
    version: int  #: number of the answers that say the same
    leaves: bytes  #: of a JSON text, packed; empty: it is none
    noise: dict[str, int] = field(
        default_factory=dict
    )  #: path -> how often it was seen to be noise


class StoredSample(NamedTuple):
    """A page that was read both ways, with its template."""

    template: str
    sample: Sample


class Need(NamedTuple):
    """A request of a stored page, and the version of its answer that the page was made of."""

    row: DataRow
    version: int


@dataclass(slots=True)
class StoredRendering:
    """What a stored page was made of: a row of ``page_data``."""

    shown: bytes  #: digest of its text and links
    always: bool  #: whether it rests on what no request brings again, such as an event stream
    needs: tuple[Need, ...]
    is_doubted: bool = False  #: whether this run found that its data differs


@dataclass(slots=True)
class NewRendering:
    """What a page is made of that was rendered in this run."""

    url: str
    shown: bytes
    always: bool
    rows: list[DataRow]  #: whose versions count when the page is written


def pack_page_needs(pairs: Iterable[tuple[int, int]]) -> bytes:
    """Pack numbers of requests, each with its version, as int64 in the machine's byte order."""
    return array("q", [number for pair in pairs for number in pair]).tobytes()


def unpack_page_needs(packed: bytes) -> list[tuple[int, int]]:
    """Return the pairs that ``pack_page_needs`` packed.

    >>> unpack_page_needs(pack_page_needs([(1, 2), (3, 4)]))
    [(1, 2), (3, 4)]
    """
    numbers = array("q")
    numbers.frombytes(packed)
    return list(zip(numbers[::2], numbers[1::2], strict=True))

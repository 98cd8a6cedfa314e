"""Pages that answer a query."""

from __future__ import annotations

from dataclasses import dataclass

from smartcrawl.rules.model import Status


@dataclass(frozen=True, slots=True)
class HitChunk:
    """A chunk of a page that answers a query."""

    number: int  #: its place in its page, from 0: ``sort_order`` of the view documents
    path: str  #: the headings above it, outermost first, " > " between
    highlight: str  #: the text around the words found, with marks
    text: str  #: all of it

    @property
    def headings(self) -> tuple[str, ...]:
        """The headings above it; one that contains " > " counts as two."""
        return tuple(self.path.split(" > ")) if self.path else ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One page that answers a query."""

    url: str
    source: str
    title: str
    headings: str  #: heading path of the best chunk
    snippet: str
    score: float  #: greater is better
    language: str
    description: str
    lost: bool  #: its last visit found an error; the content is of an earlier visit
    last_checked: int | None  #: Unix seconds
    last_changed: int | None
    no: int = 0  #: number of its record
    key: bytes = b""  #: SHA-256 of the normalized address
    document_id: str = ""  #: id in the index; lastIndexedDocId of its record
    sources: tuple[str, ...] = ()  #: all sources that have it, ``source`` first
    #: At most ``ranking.MOST_SHOWN``, best first; the snippet is of the first. Empty: no text.
    chunks: tuple[HitChunk, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The pages that answer a query, best first, and the query that they answer."""

    hits: list[Hit]
    meant: str = ""  #: the query with known words in the place of unknown ones; "": as it was asked
    note: str = ""  #: why meaning did not count, or which chunks it cannot find


def is_lost_hit(status: int, losses: int) -> bool:
    """Whether the last visit of a stored page found an error: its content is of an earlier one."""
    return status == Status.ERROR or losses > 0


def embedded_document_id(key: bytes) -> str:
    """Return the id of a page in the embedded index.

    >>> embedded_document_id(bytes.fromhex("0b1a"))
    'page_0b1a'

    Source: R0-33, R0-36.
    """
    return f"page_{key.hex()}"

"""Protocol between the crawler and a reading process: frames, and JSON in them.

Answers are limited in size before they are read, and never unpickled; ``extract.answers`` checks
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BufferedIOBase, RawIOBase
from typing import Any, Final, NamedTuple, Protocol

from pydantic_core import to_json

from smartcrawl.extract.formats.common import FormatError
from smartcrawl.model.documents import Document

MAX_BODY: Final = 128 * 1024 * 1024  #: bytes of a document
MAX_HEADER: Final = 1024 * 1024  #: bytes
MAX_ANSWER: Final = 192 * 1024 * 1024  #: bytes; MAX_TEXT characters take at most six each
_PREFIX: Final = 4  #: bytes of the length before a frame
MAX_PARTS: Final = 32 * 1024 * 1024  #: bytes of what is made of a page beside its document
LONGEST: Final = 10_000  #: characters of a title, description, anchor or message


class AnswerError(Exception):
    """A frame that is no answer of this version."""


class PageTask(NamedTuple):
    """A page to read, with the arguments of ``html.parse_html``."""

    body: bytes
    content_type: str
    url: str
    links: bool = True
    detect: bool = True
    is_new: bool = True  #: whether nothing of its page is stored; a ``PartMaker`` may know more


class Selected(NamedTuple):
    """CSS selectors of the parts of pages that count, and of those that do not."""

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    routes: bool = False  #: whether links keep their hash routes


@dataclass(frozen=True, slots=True)
class ReadDocument(Document):
    """The document of a page, with what else was made of it where it was read."""

    parts: Any = field(default=None, compare=False)


class PartMaker(Protocol):
    """Has processes make more of pages than their documents; rooms above this one know what."""

    @property
    def module(self) -> str:
        """What such a process runs: ``extract.child`` with a function that makes it."""

    @property
    def order(self) -> str:
        """How it is made, which each request says."""

    def parse(self, answer: bytes, document: Document, url: str) -> Any:
        """Return what a process has made of the page at an address.

        Raises:
            AnswerError: its function makes no such thing.
        """


def send_extraction_frames(stream: RawIOBase, *frames: bytes) -> None:
    """Write complete frames."""
    for frame in frames:
        for part in (len(frame).to_bytes(_PREFIX, "big"), frame):
            rest = memoryview(part)
            while rest:
                rest = rest[stream.write(rest) or 0 :]


def receive_extraction_frame(stream: RawIOBase | BufferedIOBase, limit: int) -> bytes:
    """Read a frame of at most ``limit`` bytes.

    Raises:
        EOFError: the other side has ended.
        AnswerError: the frame is longer.
    """
    size = int.from_bytes(_exactly(stream, _PREFIX), "big")
    if size > limit:
        raise AnswerError(f"a frame of {size:,} bytes; at most {limit:,} are read")
    return bytes(_exactly(stream, size))


def _exactly(stream: RawIOBase | BufferedIOBase, size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = stream.readinto(rest)
        if not count:
            raise EOFError
        rest = rest[count:]
    return data


def wire_extraction_tasks(
    tasks: Sequence[PageTask], selected: Selected, order: str | None = None
) -> tuple[bytes, bytes]:
    """Return the frames of a request for several pages, which has one answer for each.

    ``order``: of a ``PartMaker``; None: the documents are wanted alone.
    """
    pages = [(len(task.body), *task[1:]) for task in tasks]
    header = json.dumps({"pages": pages, "selected": selected, "order": order}).encode()
    return header, b"".join(task.body for task in tasks)


def extraction_tasks_from_wire(header: dict[str, Any], body: bytes) -> Iterator[PageTask]:
    """Yield the pages of a request (``wire_extraction_tasks``)."""
    start = 0
    for size, *arguments in header["pages"]:
        yield PageTask(body[start : start + size], *arguments)
        start += size


def wire_document(document: Document) -> bytes:
    """Return the answer with a document."""
    return b"D" + to_json(document)


def wire_document_with_parts(document: Document, parts: bytes) -> bytes:
    """Return the answer with a document and what else was made of it.

    Parts that are too long are left out: the crawler makes them itself.
    """
    if len(parts) > MAX_PARTS:
        return wire_document(document)
    return b"P" + len(parts).to_bytes(_PREFIX, "big") + parts + wire_document(document)


def document_parts_from_wire(answer: bytes) -> tuple[bytes, bytes | None]:
    """Return the answer with a document alone, and its parts if there are any.

    Raises:
        AnswerError: the parts are longer than they may be, or than the answer.
    """
    if answer[:1] != b"P":
        return answer, None
    start = 1 + _PREFIX
    end = start + int.from_bytes(answer[1:start], "big")
    if end > min(len(answer), start + MAX_PARTS):
        raise AnswerError("parts of a page that are too long")
    return answer[end:], answer[start:end]


def wire_extraction_error(error: FormatError) -> bytes:
    """Return the answer with an error."""
    fields = {"kind": str(error.kind), "message": str(error)[:LONGEST]}
    return b"E" + json.dumps(fields).encode()

"""What goes between the crawler and a process that reads documents: frames, and JSON in them.

What comes back is bounded before it is read, and never unpickled; ``extract.answers`` checks it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BufferedIOBase, RawIOBase
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from smartcrawl.extract.formats.common import FormatError
from smartcrawl.model.documents import Document

MAX_BODY: Final = 128 * 1024 * 1024  #: bytes of a document that are handed over
MAX_HEADER: Final = 1024 * 1024  #: bytes
MAX_ANSWER: Final = 192 * 1024 * 1024  #: bytes; MAX_TEXT characters take at most six each
_PREFIX: Final = 4  #: bytes of the length before a frame
LONGEST: Final = 10_000  #: characters of a title, description, anchor or message


class AnswerError(Exception):
    """What came back is no answer that this version gives."""


class PageTask(NamedTuple):
    """A page that is to be read, as ``html.parse`` is told."""

    body: bytes
    content_type: str
    url: str
    links: bool = True
    detect: bool = True


class Selected(NamedTuple):
    """CSS selectors of what counts in pages, and of what does not."""

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


def send(stream: RawIOBase, *frames: bytes) -> None:
    """Write frames whole."""
    for frame in frames:
        for part in (len(frame).to_bytes(_PREFIX, "big"), frame):
            rest = memoryview(part)
            while rest:
                rest = rest[stream.write(rest) or 0 :]


def receive(stream: RawIOBase | BufferedIOBase, limit: int) -> bytes:
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


def asked(tasks: Sequence[PageTask], selected: Selected) -> tuple[bytes, bytes]:
    """Return the frames of a request for several pages, which has as many answers."""
    pages = [(len(task.body), *task[1:]) for task in tasks]
    header = json.dumps({"pages": pages, "selected": selected}).encode()
    return header, b"".join(task.body for task in tasks)


def tasks_of(header: dict[str, Any], body: bytes) -> Iterator[PageTask]:
    """Yield the pages of such a request."""
    start = 0
    for size, *told in header["pages"]:
        yield PageTask(body[start : start + size], *told)
        start += size


def said(document: Document) -> bytes:
    """Return the answer that is a document."""
    return b"D" + to_json(document)


def failed(error: FormatError) -> bytes:
    """Return the answer that is an error."""
    told = {"kind": str(error.kind), "message": str(error)[:LONGEST]}
    return b"E" + json.dumps(told).encode()

"""Protocol between the crawler and a reading process: frames, and JSON in them.

Answers are limited in size before they are read, and never unpickled; ``extract.answers`` checks
them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BufferedIOBase, RawIOBase
from typing import Any, Final, NamedTuple

from pydantic_core import to_json

from smartcrawl.extract.formats.common import FormatError
from smartcrawl.model.documents import Document

MAX_BODY: Final = 128 * 1024 * 1024  #: bytes of a document
MAX_HEADER: Final = 1024 * 1024  #: bytes
MAX_ANSWER: Final = 192 * 1024 * 1024  #: bytes; MAX_TEXT characters take at most six each
_PREFIX: Final = 4  #: bytes of the length before a frame
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


class Selected(NamedTuple):
    """CSS selectors of the parts of pages that count, and of those that do not."""

    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    routes: bool = False  #: whether links keep their hash routes


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


def wire_extraction_tasks(tasks: Sequence[PageTask], selected: Selected) -> tuple[bytes, bytes]:
    """Return the frames of a request for several pages, which has one answer for each."""
    pages = [(len(task.body), *task[1:]) for task in tasks]
    header = json.dumps({"pages": pages, "selected": selected}).encode()
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


def wire_extraction_error(error: FormatError) -> bytes:
    """Return the answer with an error."""
    fields = {"kind": str(error.kind), "message": str(error)[:LONGEST]}
    return b"E" + json.dumps(fields).encode()

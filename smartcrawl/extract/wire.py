"""What goes between the crawler and a process that reads documents: frames, and JSON in them.

The crawler believes nothing of what comes back: a document may have taken over the process that
reads it. So it is never unpickled, bounded before it is read, and checked field by field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from io import BufferedIOBase, RawIOBase
from typing import Any, Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from smartcrawl.extract.charset import CODECS
from smartcrawl.extract.formats.common import MAX_TEXT, FormatError, FormatFault
from smartcrawl.extract.links import MAX_LINKS, MAX_OVERLONG
from smartcrawl.items import Document, Link
from smartcrawl.urls import request_url

MAX_BODY: Final = 128 * 1024 * 1024  #: bytes of a document that are handed over
MAX_HEADER: Final = 1024 * 1024  #: bytes
MAX_ANSWER: Final = 192 * 1024 * 1024  #: bytes; MAX_TEXT characters take at most six each
_PREFIX: Final = 4  #: bytes of the length before a frame
_CHARSETS: Final = CODECS | {"", "utf-16", "utf-32", "utf-32-le", "utf-32-be"}
_LONGEST: Final = 10_000  #: characters of a title, description, anchor or message
_WORD: Final = 32  #: characters of the type of a link

_DOCUMENT: Final = TypeAdapter(Document)


class AnswerError(Exception):
    """What came back is no answer that this version gives."""


class PageTask(NamedTuple):
    """A page that is to be read, as ``html.parse`` is told; ``links``: whether they are wanted."""

    body: bytes
    content_type: str
    url: str
    links: bool


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
    pages = [(len(task.body), task.content_type, task.url, task.links) for task in tasks]
    header = json.dumps({"pages": pages, "selected": selected}).encode()
    return header, b"".join(task.body for task in tasks)


def tasks_of(header: dict[str, Any], body: bytes) -> Iterator[PageTask]:
    """Yield the pages of such a request."""
    start = 0
    for size, content_type, url, links in header["pages"]:
        yield PageTask(body[start : start + size], content_type, url, links)
        start += size


def said(document: Document) -> bytes:
    """Return the answer that is a document."""
    return b"D" + _DOCUMENT.dump_json(document)


def failed(error: FormatError) -> bytes:
    """Return the answer that is an error."""
    told = {"kind": str(error.kind), "message": str(error)[:_LONGEST]}
    return b"E" + json.dumps(told).encode()


def understood(answer: bytes, media_type: str, longest: int = _LONGEST) -> Document:
    """Return the document of an answer, whose fields have ``longest`` characters at most.

    Raises:
        FormatError: the answer is an error.
        AnswerError: it is none that a reader of ``media_type`` gives.
    """
    if answer[:1] == b"E":
        raise _error(answer[1:])
    try:
        document = _DOCUMENT.validate_json(memoryview(answer)[1:].tobytes(), strict=True)
    except ValidationError as error:
        raise AnswerError(str(error)[:_LONGEST]) from error
    wrong = _wrong(document, media_type, max(longest, _LONGEST))
    if answer[:1] != b"D" or wrong:
        raise AnswerError(f"a document with {wrong}")
    return document


def _error(answer: bytes) -> FormatError:
    try:
        told: Any = json.loads(answer)
        return FormatError(FormatFault(told["kind"]), str(told["message"])[:_LONGEST])
    except (ValueError, TypeError, LookupError) as error:
        raise AnswerError("an error that cannot be read") from error


def _wrong(document: Document, media_type: str, longest: int) -> str:
    """Return what in a document no reader says, or an empty string."""
    texts = [document.title, document.description, *document.overlong]
    texts += [text for image in document.images for text in image if isinstance(text, str)]
    texts += [link.anchor for link in document.links]
    if any(len(text) > longest for text in texts):
        return "an overlong field"
    text = [part for section in document.sections for part in (section.heading, section.text)]
    if sum(map(len, text)) > MAX_TEXT:
        return "too much text"
    if any("\0" in part for part in texts + text):
        return "a NUL"
    if any(not 0 <= section.level <= 6 for section in document.sections):
        return "a heading of no level"
    if len(document.links) > MAX_LINKS or len(document.overlong) > MAX_OVERLONG:
        return "too many links"
    if not all(map(_is_sound, document.links)):
        return "a link that is none"
    if document.canonical is not None and request_url(document.canonical) != document.canonical:
        return "a canonical address that is none"
    if document.charset not in _CHARSETS or len(document.language) not in (0, 2):
        return "no charset or no language"
    return "" if document.content_type == media_type else "another type"


def _is_sound(link: Link) -> bool:
    return request_url(link.url) == link.url and len(link.type) <= _WORD

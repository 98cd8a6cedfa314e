"""Checks of the answers of reading processes.

A document may have taken over the process that reads it. So no field of an answer is trusted before
it was checked.
"""

from __future__ import annotations

import json
from itertools import chain
from operator import le
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from smartcrawl.extract.charset import CODECS
from smartcrawl.extract.formats.common import MAX_TEXT, FormatError, FormatFault
from smartcrawl.extract.links import MAX_LINKS, MAX_OVERLONG, document_base_url
from smartcrawl.extract.wire import LONGEST, AnswerError
from smartcrawl.model.documents import BLOCK_KINDS, LIST, Document, Link, Section
from smartcrawl.model.file_urls import join_file_url
from smartcrawl.model.urls import request_url

_CHARSETS: Final = CODECS | {"", "utf-16", "utf-32", "utf-32-le", "utf-32-be"}
_WORD: Final = 32  #: characters of the type of a link

_DOCUMENT: Final = TypeAdapter(Document)


def parse_document_answer(
    answer: bytes, media_type: str, longest: int = LONGEST, url: str = ""
) -> Document:
    """Return the document of an answer; its fields may have ``longest`` characters.

    ``url``: the address of the document. A file may link to other files of its place.

    Raises:
        FormatError: the answer is an error.
        AnswerError: no reader of ``media_type`` gives such an answer.
    """
    if answer[:1] == b"E":
        raise _error(answer[1:])
    try:
        document = _DOCUMENT.validate_json(memoryview(answer)[1:].tobytes(), strict=True)
    except ValidationError as error:
        raise AnswerError(str(error)[:LONGEST]) from error
    wrong = _wrong(document, media_type, max(longest, LONGEST), answer)
    if not all(_is_sound(link, url) for link in document.links):
        wrong = wrong or "a link that is none"
    if answer[:1] != b"D" or wrong:
        raise AnswerError(f"a document with {wrong}")
    return document


def _error(answer: bytes) -> FormatError:
    try:
        fields: Any = json.loads(answer)
        return FormatError(FormatFault(fields["kind"]), str(fields["message"])[:LONGEST])
    except (ValueError, TypeError, LookupError) as error:
        raise AnswerError("an error that cannot be read") from error


def _wrong(document: Document, media_type: str, longest: int, answer: bytes) -> str:
    """Return the fault of a document that no reader gives, or an empty string."""
    texts = [document.title, document.description, document.keywords, *document.overlong]
    texts += [text for image in document.images for text in image if isinstance(text, str)]
    texts += [link.anchor for link in document.links]
    if any(len(text) > longest for text in texts):
        return "an overlong field"
    if sum(len(section.heading) + len(section.text) for section in document.sections) > MAX_TEXT:
        return "too much text"
    if b"\\u0000" in answer and "\0" in "".join((*texts, document.text)):
        return "a NUL"
    if any(not 0 <= section.level <= 6 for section in document.sections):
        return "a heading of no level"
    if not all(map(_has_sound_blocks, document.sections)):
        return "a block outside of its text"
    if len(document.links) > MAX_LINKS or len(document.overlong) > MAX_OVERLONG:
        return "too many links"
    for named in (document.canonical, document.refresh):
        if named is not None and request_url(named) != named:
            return "a canonical address or refresh that is none"
    if document.charset not in _CHARSETS or any(
        len(code) not in (0, 2) for code in (document.language, document.declared)
    ):
        return "no charset or no language"
    return "" if document.content_type == media_type else "another type"


def _has_sound_blocks(section: Section) -> bool:
    """Whether the blocks are in the text, by their start, and code and tables do not overlap."""
    start = end = 0
    for block in section.blocks:
        inside = block.kind in BLOCK_KINDS and start <= block.start < block.end <= len(section.text)
        first = block.caption or block.start
        places = [block.start, first, *chain.from_iterable(block.rows), block.end]
        if not inside or not all(map(le, places, places[1:])) or block.head < 0:
            return False
        start = block.start
        if block.kind != LIST:
            if block.start < end:
                return False
            end = block.end
    return True


def _is_sound(link: Link, url: str) -> bool:
    if len(link.type) > _WORD:
        return False
    return request_url(link.url) == link.url or _is_file_beside(link.url, url)


def _is_file_beside(linked: str, url: str) -> bool:
    """Whether a link leads from a file, not a web page, to a file of the same place."""
    return bool(url) and join_file_url(document_base_url(url), linked) == linked

"""XML read as a stream: no tree, no external entity, no expansion, bounded in depth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol
from xml.parsers import expat

from smartcrawl.extract.formats.common import corrupt_document, document_too_large

MAX_DEPTH: Final = 512  #: open elements
MAX_TAG: Final = 1024 * 1024  #: bytes of one tag or comment; expat's time grows with its square
PORTION: Final = 65_536  #: bytes that expat is given at once

Attributes = Mapping[str, str]


class MarkupWalker(Protocol):
    """Handler of the events of one walk. Names are local, attributes as written."""

    def start(self, name: str, attributes: Attributes) -> None:
        """Take the start of an element."""

    def end(self, name: str) -> None:
        """Take the end of an element."""

    def text(self, text: str) -> None:
        """Take a text between tags; several calls may make one text."""


def markup_attribute(attributes: Attributes, name: str) -> str:
    """Return the attribute with this local name, or an empty string.

    >>> markup_attribute({"w:val": "Heading1"}, "val")
    'Heading1'
    """
    if name in attributes:
        return attributes[name]
    ending = ":" + name
    return next((value for key, value in attributes.items() if key.endswith(ending)), "")


def markup_portions(body: bytes) -> Iterable[bytes]:
    """Return ``body`` in pieces for ``walk_markup``."""
    return (body[at : at + PORTION] for at in range(0, len(body), PORTION))


def walk_markup(
    walker: MarkupWalker,
    xml: Iterable[bytes],
    *,
    part: str,
    charset: str | None = None,
    doctype: bool = False,
) -> None:
    """Walk over XML in portions of at most ``PORTION`` bytes, with the handler ``walker``.

    ``part`` names it in messages, ``charset`` overrules its declaration. With ``doctype`` a
    document type declaration is ignored, and its entities stay unexpanded; else it is refused,
    because no office format has one.

    Raises:
        FormatError: the XML is not well-formed, too deep, or has a declaration that is refused.
    """
    parser = expat.ParserCreate(charset)
    parser.buffer_text = True
    _Bounds(walker, parser, part, doctype=doctype)
    fed = 0
    try:
        for portion in xml:
            parser.Parse(portion, False)
            fed += len(portion)
            if fed - parser.CurrentByteIndex > MAX_TAG:  # expat scans it again each time
                raise document_too_large(f"{part} has a tag or a comment of more than 1 MiB")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        what = f"{part}, line {error.lineno}: not well-formed XML ({expat.ErrorString(error.code)})"
        raise corrupt_document(what) from error
    except (LookupError, UnicodeError) as error:
        raise corrupt_document(f"{part} is in a charset that cannot be read: {error}") from error
    finally:  # the handlers and the parser refer to each other
        parser.StartElementHandler = parser.EndElementHandler = parser.CharacterDataHandler = None
        parser.StartDoctypeDeclHandler = parser.DefaultHandler = None


class _Bounds:
    """The handlers of one parser, which count open elements and refuse declarations."""

    def __init__(
        self, walker: MarkupWalker, parser: expat.XMLParserType, part: str, *, doctype: bool
    ) -> None:
        self._walker = walker
        self._part = part
        self._depth = 0
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = walker.text
        if doctype:
            parser.DefaultHandler = _ignore  # without it expat expands internal entities
        else:
            parser.StartDoctypeDeclHandler = self._doctype

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise document_too_large(
                f"{self._part} has more than {MAX_DEPTH} elements within each other"
            )
        self._walker.start(name[name.find(":") + 1 :], attributes)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self._walker.end(name[name.find(":") + 1 :])

    def _doctype(self, *_: object) -> None:
        raise corrupt_document(
            f"{self._part} has a document type declaration, which is never read, because it can"
            " fill the memory or name files of this machine",
        )


def _ignore(_: str) -> None:
    """Ignore all events that no other handler takes."""

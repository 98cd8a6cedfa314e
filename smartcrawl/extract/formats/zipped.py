"""ZIP files within bounds, and the XML parts that office documents keep in them."""

from __future__ import annotations

import posixpath
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from smartcrawl.extract.formats.common import (
    FormatError,
    FormatFault,
    corrupt_document,
    document_too_large,
)
from smartcrawl.extract.sniff import ENCRYPTED_MARK

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


MAX_MEMBERS: Final = 10_000
MAX_UNPACKED: Final = 256 * 1024 * 1024  #: bytes of all members that are read
MAX_RATIO: Final = 100  #: unpacked to packed size, beyond the bytes of ``_RATIO_FROM``
_RATIO_FROM: Final = 8 * 1024 * 1024  #: bytes; smaller ones fill no memory
_IS_ENCRYPTED: Final = 0x1  #: flag of a member
_BROKEN: Final = (BadZipFile, zlib.error, EOFError, struct.error, ValueError, OSError, RuntimeError)


class ZipArchive:
    """The members of a ZIP file, each read as a stream whose bytes are counted.

    Sizes in the directory are not trusted. An archive within it is never opened.

    Source: docs/attacks.md, ATT-32.
    """

    def __init__(self, body: bytes) -> None:
        """Open ``body``.

        Raises:
            FormatError: it is no ZIP file, has too many members, or wants a password.
        """
        if body.startswith(b"\xd0\xcf\x11\xe0") and ENCRYPTED_MARK in body:
            raise FormatError(
                FormatFault.ENCRYPTED, "the document is encrypted: it wants a password"
            )
        if body.count(b"PK\x01\x02") > MAX_MEMBERS:  # counted before they are read
            raise document_too_large(f"the document has more than {MAX_MEMBERS:,} parts")
        self._size = len(body)
        self._left = MAX_UNPACKED
        try:
            self._zip = ZipFile(BytesIO(body))
        except (*_BROKEN, NotImplementedError) as error:
            raise corrupt_document(f"the document is not a complete ZIP file: {error}") from error
        self._infos = {info.filename: info for info in self._zip.infolist()}
        if len(self._infos) > MAX_MEMBERS:
            raise document_too_large(f"the document has more than {MAX_MEMBERS:,} parts")

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    @property
    def names(self) -> list[str]:
        """The members, in the order of the directory."""
        return list(self._infos)

    def declared(self) -> None:
        """Refuse a file that is too large by its directory: some libraries unpack it themselves."""
        unpacked = sum(info.file_size for info in self._infos.values())
        packed = sum(info.compress_size for info in self._infos.values())
        if unpacked > MAX_UNPACKED or _is_bomb(unpacked, min(packed, self._size)):
            raise _bomb("the document", unpacked)

    def portions(self, name: str) -> Iterator[bytes]:
        """Yield a member in portions of at most ``PORTION`` bytes.

        Raises:
            FormatError: it is missing, broken, encrypted, or unpacks to more than the limits.
        """
        info = self._info(name)
        seen = 0
        try:
            with self._zip.open(info) as stream:
                while portion := stream.read(PORTION):
                    seen += len(portion)
                    self._left -= len(portion)
                    if self._left < 0 or _is_bomb(seen, min(info.compress_size, self._size)):
                        raise _bomb(name, seen)
                    yield portion
        except (*_BROKEN, NotImplementedError) as error:
            raise corrupt_document(f"{name} in the document is broken: {error}") from error

    def read(self, name: str) -> bytes:
        """Return a whole member; see ``portions``."""
        return b"".join(self.portions(name))

    def _info(self, name: str) -> ZipInfo:
        info = self._infos.get(name)
        if info is None:
            raise corrupt_document(f"the document has no part {name}")
        if info.flag_bits & _IS_ENCRYPTED:
            what = f"the document is encrypted: {name} wants a password"
            raise FormatError(FormatFault.ENCRYPTED, what)
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
            raise corrupt_document(
                f"{name} in the document is packed by method {info.compress_type}"
            )
        return info


def _is_bomb(unpacked: int, packed: int) -> bool:
    return unpacked > _RATIO_FROM and unpacked > MAX_RATIO * max(packed, 1)


def _bomb(what: str, size: int) -> FormatError:
    return document_too_large(
        f"{what} unpacks to {size:,} bytes or more: limits are {MAX_UNPACKED:,} bytes of one"
        f" document, and {MAX_RATIO} times its packed size"
    )


def document_part_name(source: str, target: str) -> str:
    """Return the name of the member that ``source`` names as ``target``.

    >>> document_part_name("ppt/slides/slide1.xml", "../notesSlides/notesSlide1.xml")
    'ppt/notesSlides/notesSlide1.xml'
    >>> document_part_name("ppt/presentation.xml", "/ppt/slides/a%20b.xml#top")
    'ppt/slides/a b.xml'
    """
    path = unquote(target.partition("#")[0])
    return posixpath.normpath(posixpath.join("/", posixpath.dirname(source), path)).lstrip("/")


#: Element whose content is not visible, or is a copy.
FALLBACK: Final = "Fallback"
_PROPERTIES: Final = frozenset({"title", "language"})
_MAX_PROPERTY: Final = 1_000  #: characters


class Relation(NamedTuple):
    """Relation of a part: to the name of another part, or to an address outside."""

    kind: str  #: last segment of its type: ``slide``, ``hyperlink``
    target: str
    external: bool


class _Relations:
    def __init__(self, source: str) -> None:
        self._source = source
        self.found: dict[str, Relation] = {}

    def start(self, name: str, attributes: Attributes) -> None:
        if name != "Relationship":
            return
        kind = attributes.get("Type", "").rpartition("/")[2]
        target = attributes.get("Target", "")
        external = attributes.get("TargetMode", "").lower() == "external"
        if not external:
            target = document_part_name(self._source, target)
        self.found[attributes.get("Id", "")] = Relation(kind, target, external)

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


def opc_relations(archive: ZipArchive, part: str) -> dict[str, Relation]:
    """Return the relations of ``part`` by their id; those of the package itself for ``""``."""
    folder, name = posixpath.split(part)
    path = posixpath.join(folder, "_rels", f"{name}.rels")
    seen = _Relations(part)
    if path in archive:
        walk_markup(seen, archive.portions(path), part=path)
    return seen.found


def opc_main_part(archive: ZipArchive, usual: str) -> str:
    """Return the main part of a document; ``usual`` if the package names none."""
    kinds = {found.kind: found.target for found in opc_relations(archive, "").values()}
    return kinds.get("officeDocument", usual)


class OpcProperties:
    """Title and language, as a person entered or a program wrote them."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._open = ""

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin to read a property."""
        self._open = name if name in _PROPERTIES and name not in self.found else ""

    def end(self, name: str) -> None:
        """End the open property."""
        self._open = ""

    def text(self, text: str) -> None:
        """Add to the open property."""
        if self._open:
            self.found[self._open] = (self.found.get(self._open, "") + text)[:_MAX_PROPERTY]


def opc_properties(archive: ZipArchive, part: str = "") -> dict[str, str]:
    """Return ``title`` and ``language`` of a package, from its part ``part`` if that is given."""
    if not part:
        kinds = {found.kind: found.target for found in opc_relations(archive, "").values()}
        part = kinds.get("core-properties", "docProps/core.xml")
    seen = OpcProperties()
    if part in archive:
        walk_markup(seen, archive.portions(part), part=part)
    return seen.found


def is_ooxml_switch_on(attributes: Attributes) -> bool:
    """Return whether a switch of OOXML is on; without a value it is."""
    return markup_attribute(attributes, "val").lower() not in ("0", "false", "off")

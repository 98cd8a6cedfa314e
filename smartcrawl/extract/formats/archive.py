"""ZIP files within bounds: members, unpacked size, ratio."""

from __future__ import annotations

import posixpath
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Final
from urllib.parse import unquote
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from smartcrawl.extract.formats.common import (
    FormatError,
    FormatFault,
    corrupt_document,
    document_too_large,
)
from smartcrawl.extract.formats.markup import PORTION
from smartcrawl.extract.sniff import ENCRYPTED_MARK

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
            raise corrupt_document(f"the document is no complete ZIP file: {error}") from error
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

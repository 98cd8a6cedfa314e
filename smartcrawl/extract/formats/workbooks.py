"""XLS, XLSB and ODS, by calamine: a section for each sheet, a line for each row."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from smartcrawl.extract.formats import zipped
from smartcrawl.extract.formats.common import FormatError, FormatFault, parsed_document
from smartcrawl.extract.formats.xlsx import read_workbook, workbook_sections
from smartcrawl.extract.formats.zipped import ZipArchive
from smartcrawl.extract.links import document_file_name
from smartcrawl.extract.sniff import ENCRYPTED_MARK
from smartcrawl.model.documents import Document

_ZIP: Final = b"PK"
#: Begin of the globals of an XLS of Excel 97 and later that wants a password: BOF, perhaps
#: WriteProtect, FilePass ([MS-XLS] 2.1.7.20.3).
_PASSWORD: Final = re.compile(
    rb"\x09\x08\x10\x00\x00\x06\x05\x00.{12}(?:\x86\x00\x00\x00)?\x2f\x00", re.DOTALL
)


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a workbook; see ``xlsx.read_format``.

    The memory of its grid depends on the distance between its cells: one that has cells at both
    ends of a sheet may need more than a document may have.
    """
    properties: dict[str, str] = {}
    if body.startswith(_ZIP):
        archive = ZipArchive(body)
        archive.declared()
        if b"encryption-data" in _part(archive, "META-INF/manifest.xml"):
            raise FormatError(
                FormatFault.ENCRYPTED, "the workbook is encrypted: it wants a password"
            )
        properties = zipped.opc_properties(archive, "meta.xml" if "meta.xml" in archive else "")
    elif ENCRYPTED_MARK in body or _PASSWORD.search(body):
        raise FormatError(FormatFault.ENCRYPTED, "the workbook is encrypted: it wants a password")
    return parsed_document(
        url=url,
        text=read_workbook(partial(workbook_sections, body)),
        title=properties.get("title", "") or document_file_name(url),
        declared=properties.get("language", ""),
    )


def _part(archive: ZipArchive, name: str) -> bytes:
    return archive.read(name) if name in archive else b""

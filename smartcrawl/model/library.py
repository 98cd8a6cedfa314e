"""Items of a document library, as its listing names them."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

LIBRARY_FILE: Final = "library_file"  #: in the meta of a request: the LibraryFile so far
LISTED_ENTRY: Final = "listed_entry"  #: in the meta of a request and of its retries


class SourceType(StrEnum):
    """The three kinds of library sources, named as the lists of domain.json (R3-08)."""

    FILES = "file_sources"
    LISTS = "list_sources"
    SITEPAGES = "sitepage_sources"


class LibraryItem(NamedTuple):
    """One file, list item or site page, as a listing has it (R3-50)."""

    listitem_id: int
    unique_id: str  #: GUID that rename, move and update never change (R3-31); lower case
    #: byte for byte as the library has it; a list item: its ID and `.md`, e.g. `3.md`
    filename: str
    #: decoded, begins with a slash; a list item: of its list folder and ID
    server_relative_url: str
    file_size: int  #: bytes; a list item or a page: of its `content`, UTF-8
    last_modified: int  #: Unix microseconds
    url: str  #: absolute, percent-encoded by `quote(path, safe="/:@")`
    #: what the listing itself carries: JSON of a list item's or page's fields; None: to be
    #: downloaded
    content: str | None = None

    @property
    def file_type(self) -> str:
        """The extension without the dot, lower case; empty without one (R3-50)."""
        stem, dot, extension = self.filename.rpartition(".")
        return extension.lower() if dot and stem else ""


class LibraryFile(NamedTuple):
    """The file of an item after a run has asked for it.

    Bytes that just came are ``staged``. Without them, those of ``held`` go to ``path``. With
    neither, ``error`` says why there is no file.
    """

    item: LibraryItem
    path: str | None  #: its place below the folder of the source, with slashes; None: unknown
    staged: str | None = None  #: name of its new bytes in the incoming folder
    held: str | None = None  #: present place of its bytes below the folder of the source
    downloaded: int = 0  #: Unix microseconds at which its bytes reached the disk
    error: str | None = None
    digest: bytes | None = None  #: SHA-256 of its bytes as they came; None: there are none


class LibraryRow(NamedTuple):
    """An item as the registry stores it: the four fields of its file, and where that is.

    Source: R3-02, R3-51.
    """

    no: int  #: record.no
    listitem_id: int
    unique_id: str
    filename: str
    server_relative_url: str
    file_size: int  #: bytes
    last_modified: int  #: Unix microseconds
    path: str | None  #: below the folder of the source, with slashes; None: there is no file
    downloaded: int | None  #: Unix microseconds
    sharepoint_error: str | None
    processing_error: str | None

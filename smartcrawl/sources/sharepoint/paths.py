"""Paths of library items on disk and in the maps.

A name on disk is the library's, byte for byte: no case is folded and nothing is normalized, so
that two names stay two. A path is relative to ``PERSISTENT_STORAGE_PATH/crawler`` and has slashes;
in a map it has backslashes (R3-54).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.library import SourceType
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG

_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
LIBRARY_URL_KEPT: Final = "/:@"  #: characters of a path that its URL does not escape (R3-50)
LONGEST_NAME: Final = 255  #: bytes of a name, by Linux's NAME_MAX
LONGEST_PATH: Final = 4_095  #: bytes of a path from the root, by Linux's PATH_MAX with its NUL
#: The folder of each kind of source below that of its domain (R3-47 to R3-49).
SOURCE_TYPE_FOLDERS: Final[Mapping[SourceType, str]] = {
    SourceType.FILES: _CONFIG.PERSISTENT_STORAGE_PATH_DOCUMENTS_FOLDER,
    SourceType.LISTS: _CONFIG.PERSISTENT_STORAGE_PATH_LISTS_FOLDER,
    SourceType.SITEPAGES: _CONFIG.PERSISTENT_STORAGE_PATH_SITEPAGES_FOLDER,
}
_PAGE: Final = ".aspx"
_HTML: Final = ".html"
_MARKDOWN: Final = ".md"
_TABLE: Final = ".csv"
_NOTE: Final = ".txt"


class LibraryPathError(SmartcrawlError):
    """A name of a library cannot be a name on disk; the message is for ``sharepoint_error``."""


def sharepoint_path_problem(path: str) -> str | None:
    r"""Return the reason why a path below a library cannot be one on disk, or None if it can.

    The length does not count here (see ``sharepoint_path_excess``).

    >>> sharepoint_path_problem("Reports/Q1.docx") is None
    True
    >>> sharepoint_path_problem("../../etc/passwd")
    "a part of its path is '..'"
    >>> sharepoint_path_problem("a\\b.txt")
    'its path has a backslash'
    """
    if "\0" in path:
        return "its path has a NUL character"
    if "\\" in path:
        return "its path has a backslash"
    if not _is_unicode(path):
        return "its path is not valid Unicode"
    for name in path.split("/"):
        if name in ("", ".", ".."):
            return f"a part of its path is {name!r}" if name else "a part of its path is empty"
    return None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which a JSON escape can make
        return False
    return True


def sharepoint_path_excess(storage: Path, path: str) -> str | None:
    """Return the reason why a path is too long for the system, or None if it is not (R3-124).

    ``path`` is relative to the crawler's folder of ``storage``.
    """
    for name in path.split("/"):
        size = len(os.fsencode(name))
        if size > LONGEST_NAME:
            return f"a name of its path has {size:,} bytes, and the system takes {LONGEST_NAME}"
    size = len(os.fsencode(sharepoint_crawler_folder(storage))) + 1 + len(os.fsencode(path))
    if size > LONGEST_PATH:
        return f"its path on disk has {size:,} bytes, and the system takes {LONGEST_PATH:,}"
    return None


def sharepoint_crawler_folder(storage: Path) -> Path:
    """Return the folder that the paths of this module begin in."""
    return storage / _CONFIG.PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER


def get_expected_local_path(
    domain_id: str,
    source_type: SourceType,
    source_id: str,
    server_relative_url: str,
    library_path: str,
) -> str:
    """Return the path of an item as it is embedded (R3-140).

    A list item is a Markdown file, named by its ID. A site page is an HTML file.

    >>> get_expected_local_path("DOMAIN01", SourceType.FILES, "source01",
    ...     "/sites/demo/Shared Documents/Reports/Q1.docx", "/sites/demo/Shared Documents")
    'DOMAIN01/01_files/source01/02_embedded/Reports/Q1.docx'

    Raises:
        LibraryPathError: it would not be below the folder of the source.
    """
    relative = _relative(source_type, server_relative_url, library_path)
    if source_type is SourceType.LISTS:
        relative += _MARKDOWN
    folder = _CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER
    return f"{source_path(domain_id, source_type, source_id)}/{folder}/{relative}"


def get_original_local_path(
    domain_id: str,
    source_type: SourceType,
    source_id: str,
    server_relative_url: str,
    library_path: str,
) -> str:
    """Return the path of an item as it is downloaded (R3-56 to R3-58).

    A file has no other than that of ``get_expected_local_path``. All items of a list are in one
    CSV file.

    Raises:
        LibraryPathError: it would not be below the folder of the source.
    """
    relative = _relative(source_type, server_relative_url, library_path)
    folder = _CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER
    if source_type is SourceType.FILES:
        folder = _CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER
    elif source_type is SourceType.LISTS:
        relative = source_id + _TABLE
    return f"{source_path(domain_id, source_type, source_id)}/{folder}/{relative}"


def sharepoint_list_path(source_id: str) -> str:
    """Return the path of the CSV of a list, below the folder of its source (R3-57)."""
    return f"{_CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER}/{source_id}{_TABLE}"


def sharepoint_original_path(path: str) -> str:
    """Return the path of the original of a processed site page; other paths are their own (M-53).

    Both are below the folder of the source.
    """
    embedded = f"{_CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER}/"
    if not path.startswith(embedded):
        return path
    return f"{_CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER}/{path.removeprefix(embedded)}"


def sharepoint_embedded_path(path: str) -> str:
    """Return the path of a site page after it is processed; the reverse of the above."""
    originals = f"{_CONFIG.PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER}/"
    if not path.startswith(originals):
        return path
    return f"{_CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER}/{path.removeprefix(originals)}"


def get_failed_local_path(
    domain_id: str, source_type: SourceType, source_id: str, unique_id: str
) -> str:
    """Return the path of the note about an item whose own path is too long (R3-124).

    Raises:
        LibraryPathError: the id cannot be a name.
    """
    problem = sharepoint_path_problem(unique_id)
    if problem is not None or "/" in unique_id or len(unique_id) > LONGEST_NAME // 4:
        raise LibraryPathError(f"its unique id cannot be a name: {problem or 'it is not a GUID'}")
    folder = _CONFIG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER
    return f"{source_path(domain_id, source_type, source_id)}/{folder}/{unique_id}{_NOTE}"


def source_path(domain_id: str, source_type: SourceType, source_id: str) -> str:
    """Return the path of the folder of a source."""
    return f"{domain_id}/{SOURCE_TYPE_FOLDERS[source_type]}/{source_id}"


def _relative(source_type: SourceType, server_relative_url: str, library_path: str) -> str:
    """Return the path of an item inside its library; of a list item: its ID.

    Raises:
        LibraryPathError: there is none.
    """
    start = f"{library_path}/"
    if not server_relative_url.startswith(start):
        raise LibraryPathError(f"it is not below {library_path or '/'}")
    relative = server_relative_url.removeprefix(start)
    problem = sharepoint_path_problem(relative)
    if problem is not None:
        raise LibraryPathError(problem)
    match source_type:
        case SourceType.FILES:
            return relative
        case SourceType.LISTS:
            return relative.rpartition("/")[2]
        case SourceType.SITEPAGES:
            return sharepoint_name_of_page_file(relative)


def sharepoint_name_of_page_file(name: str) -> str:
    """Return the name of a site page as an HTML file; letters keep their case.

    So two pages whose names differ in case only stay two.

    >>> [sharepoint_name_of_page_file(name) for name in ("Home.aspx", "HOME.ASPX", "a.txt")]
    ['Home.html', 'HOME.HTML', 'a.txt']
    """
    stem, extension = name[: -len(_PAGE)], name[-len(_PAGE) :]
    if extension.lower() != _PAGE:
        return name
    return stem + "".join(
        new.upper() if old.isupper() else new for old, new in zip(extension, _HTML, strict=True)
    )


def embedded_sharepoint_file_type(source_type: SourceType, filename: str) -> str:
    """Return the type of an item as it is embedded: lower case, without the dot (R3-74).

    Of the files among site pages, only pages are embedded: the others have no type.

    >>> embedded_sharepoint_file_type(SourceType.SITEPAGES, "Home.aspx")
    'html'
    >>> embedded_sharepoint_file_type(SourceType.FILES, "Q1.DOCX")
    'docx'
    >>> embedded_sharepoint_file_type(SourceType.LISTS, "3")
    'md'
    """
    match source_type:
        case SourceType.LISTS:
            return _MARKDOWN[1:]
        case SourceType.SITEPAGES:
            return _HTML[1:] if filename.lower().endswith(_PAGE) else ""
        case SourceType.FILES:
            stem, _, extension = filename.rpartition(".")
            return extension.lower() if stem else ""


def sharepoint_map_path(path: str) -> str:
    r"""Return a path as ``file_relative_path`` has it (R3-54).

    >>> print(sharepoint_map_path("DOMAIN01/01_files/source01/02_embedded/Reports/Q1.docx"))
    DOMAIN01\01_files\source01\02_embedded\Reports\Q1.docx
    """
    return path.replace("/", "\\")


def path_of_sharepoint_map(text: str) -> str | None:
    r"""Return the path of a ``file_relative_path``; None: ``sharepoint_map_path`` never wrote this.

    >>> path_of_sharepoint_map(r"DOMAIN01\01_files\source01\02_embedded\Q1.docx")
    'DOMAIN01/01_files/source01/02_embedded/Q1.docx'
    >>> [path_of_sharepoint_map(path) for path in (r"DOMAIN01\..\..\Q1.docx", "/etc/passwd")]
    [None, None]
    """
    if "/" in text:
        return None
    path = text.replace("\\", "/")
    return path if sharepoint_path_problem(path) is None else None

"""Requests to the API of a document library, their answers, and the interface of its clients.

Graph's changes name folders by their ids, and have no path; a ``KnownDrive`` has the tree of
folders at a delta token.

The clients have no network of their own: the engine gives them a ``Fetch``, which has the limits,
the repeats and the guard of every other request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote, unquote, urlsplit

from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.model.redaction import escaped_text


class Folder(NamedTuple):
    """One folder below the root."""

    name: str
    parent: str  #: id of its folder


class FolderTree:
    """Folders by id, with their paths."""

    def __init__(self, root: str, path: str, folders: Mapping[str, Folder]) -> None:
        """Set up; ``root``: id of the root folder, whose server relative URL is ``path``."""
        self._root = root
        self._folders = folders
        self._paths: dict[str, str | None] = {root: path}

    def path(self, id_: str) -> str | None:
        """Return the path of a folder; None where it, or a folder above it, is not in the tree."""
        way: list[str] = []
        at = id_
        while at not in self._paths:
            folder = self._folders.get(at)
            if folder is None or at in way:
                self._paths[at] = None
                break
            way.append(at)
            at = folder.parent
        for one in reversed(way):
            above = self._paths[self._folders[one].parent]
            self._paths[one] = None if above is None else f"{above}/{self._folders[one].name}"
        return self._paths[id_]


class DriveToken(NamedTuple):
    """A delta token, and the drive that it is of."""

    place: str  #: API, app and library: a token of another place is dropped
    drive: str  #: id
    root: str  #: server relative URL of the library
    root_id: str
    delta: str  #: URL of the changes since


class DriveFile(NamedTuple):
    """One file of a drive, which names its folder and has no path."""

    id: str
    parent: str  #: id of its folder
    name: str
    listitem_id: int
    unique_id: str
    file_size: int  #: bytes
    last_modified: int  #: Unix microseconds


class KnownDrive(Protocol):
    """A drive as it was at a token: all of its files and folders."""

    @property
    def token(self) -> DriveToken:
        """The token."""

    def folders(self) -> dict[str, Folder]:
        """Return the folders by id."""

    def files(self) -> Iterable[DriveFile]:
        """Yield the files, in order of their list item ids."""


class DriveUpdate(NamedTuple):
    """The changes of a known drive by a complete listing, or the whole drive anew."""

    token: DriveToken
    is_whole: bool  #: whether it replaces the known drive
    folders: Mapping[str, Folder]  #: new and changed, by id
    files: Iterable[DriveFile]  #: new and changed
    gone: Iterable[str]  #: ids of removed files and folders


LARGEST_ANSWER: Final = 64 * 1024 * 1024  #: bytes of an answer that is parsed
_LONGEST_REFUSAL: Final = 65_536  #: bytes of an answer that says why there is no file
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_SHOWN: Final = 300  #: characters of a server's message in ours


class LibraryError(Exception):
    """A library gave no usable answer; the message has the reason and the remedy."""


class LibraryUnreachableError(LibraryError):
    """A server gave no whole answer; a later try may get one."""


class LibraryRefusedError(LibraryError):
    """A server refuses a request, or answers something else than was asked for."""


class LibraryRequest(NamedTuple):
    """One request; its headers and body may have secrets, which its ``repr`` leaves out."""

    url: str
    headers: Mapping[str, str] = _NO_HEADERS
    most: int = LARGEST_ANSWER  #: bytes of the body of the answer, at most
    method: str = "GET"
    body: bytes | None = None

    def __repr__(self) -> str:
        """Return method and place; the query may have a token, too."""
        return f"<{self.method} {escaped_text(self.url.partition('?')[0])}>"


def sharepoint_content_limit(item: LibraryItem) -> int:
    """Return the bytes that an answer for a file may have.

    One more than the file, so that a longer one is noticed. A refusal is longer than a small file.
    """
    return max(item.file_size, _LONGEST_REFUSAL) + 1


class LibraryAnswer(NamedTuple):
    """One whole answer."""

    status: int
    headers: Mapping[str, str]  #: names in lower case
    body: bytes

    def __repr__(self) -> str:
        """Return status and size: the body may be a token."""
        return f"<{self.status}, {len(self.body)} bytes>"


#: Blocking, to be called in a thread. Repeats, Retry-After and the address guard are behind it.
#: It does not follow redirects. Raises LibraryUnreachableError without a whole answer.
Fetch = Callable[[LibraryRequest], LibraryAnswer]


class LibraryPlace(Protocol):
    """The part of a source that says which library, list or pages are meant."""

    @property
    def source_type(self) -> SourceType:
        """The kind of the source."""

    @property
    def site_url(self) -> str:
        """URL of the site, without a slash at its end."""

    @property
    def url_part(self) -> str:
        """Path of the library below the site, decoded, with a slash before it; empty for lists."""

    @property
    def list_name(self) -> str:
        """Display title of a list; empty for libraries."""

    @property
    def filter(self) -> str:
        """OData expression, sent as written; empty: every item."""


class LibraryListing(Protocol):
    """One pass over the items of a library.

    It removes nothing unless ``problems`` is empty after the last page.
    """

    notes: list[str]  #: warnings for the log
    shortfall: int | None  #: items that the library counts and the listing lacks; None: no count
    root: str  #: server relative URL of the library's folder, as the library spells it

    @property
    def problems(self) -> list[str]:
        """``PLACE (reason: remedy)`` for each part that is missing."""

    @property
    def update(self) -> DriveUpdate | None:
        """The drive to be stored after a complete listing; None: nothing is stored of it."""

    def pages(self) -> Iterator[list[LibraryItem]]:
        """Yield the items, a list for each answer. Call it once."""


class LibraryApi(Protocol):
    """A client of one API for one source."""

    def listing(self) -> LibraryListing:
        """Return a pass that has sent no request yet."""

    def content_request(self, item: LibraryItem) -> LibraryRequest:
        """Return the request for the bytes of a file. Blocking: it may ask for a token.

        Raises:
            LibraryError: there is no token, or the file cannot be named.
        """

    def renewed(self, request: LibraryRequest) -> LibraryRequest:
        """Return a request with a new token, after one answer 401. Blocking.

        Raises:
            LibraryError: there is no new token.
        """

    def followed(self, request: LibraryRequest, location: str) -> LibraryRequest:
        """Return the request for the target of a redirect, without the token.

        Raises:
            LibraryRefusedError: this API redirects no download there.
        """


def library_origin(url: str) -> str:
    """Return scheme, host and port of a URL, in lower case.

    >>> library_origin("https://Contoso.SharePoint.com/sites/a")
    'https://contoso.sharepoint.com'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def sharepoint_site_path(site_url: str) -> str:
    """Return the server relative path of a site, decoded; empty for the root site.

    >>> sharepoint_site_path("https://contoso.sharepoint.com/sites/My%20Project")
    '/sites/My Project'
    """
    return unquote(urlsplit(site_url).path).rstrip("/")


def library_item_url(site_url: str, path: str) -> str:
    """Return the absolute URL of a server relative path (R3-50).

    >>> library_item_url("https://contoso.sharepoint.com/sites/a", "/sites/a/Docs/50% #1.pdf")
    'https://contoso.sharepoint.com/sites/a/Docs/50%25%20%231.pdf'
    """
    parts = urlsplit(site_url)
    return f"{parts.scheme}://{parts.netloc}{quote(path, safe='/:@')}"


def list_item_url(site_url: str, root: str, item_id: int) -> str:
    """Return the absolute URL of the form that shows an item of a list.

    ``root``: server relative URL of the list's folder.

    >>> list_item_url("https://contoso.sharepoint.com/sites/a", "/sites/a/Lists/My tasks", 3)
    'https://contoso.sharepoint.com/sites/a/Lists/My%20tasks/DispForm.aspx?ID=3'
    """
    return f"{library_item_url(site_url, root)}/DispForm.aspx?ID={item_id}"


def sharepoint_place_shown(place: LibraryPlace) -> str:
    """Return a place for messages: the URL of the library, or the site and the title of a list."""
    if place.source_type is SourceType.LISTS:
        return f"{place.site_url}, list {place.list_name!r}"
    return f"{place.site_url}{place.url_part}"


def sharepoint_words(text: str) -> str:
    """Return a server's words for a message: on one line, and not too long."""
    line = escaped_text(" ".join(text.split()))
    return line if len(line) <= _SHOWN else line[: _SHOWN - 1] + "…"

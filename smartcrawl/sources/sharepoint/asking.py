"""Requests with their token, from page to page of a listing, and what listings share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.sharepoint.access import (
    LARGEST_ANSWER,
    DriveUpdate,
    Fetch,
    LibraryAnswer,
    LibraryError,
    LibraryPlace,
    LibraryRefusedError,
    LibraryRequest,
    LibraryUnreachableError,
    library_origin,
    sharepoint_place_shown,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.payloads import (
    ListField,
    PayloadError,
    library_page,
    sharepoint_error_words,
    sharepoint_query_fields,
)
from smartcrawl.sources.sharepoint.tokens import Tokens

_SLACK: Final = 1_000  #: pages of a listing beyond the number of its items
_MOST_PROBLEMS: Final = 100  #: that are named; the rest is counted


class PageWalk:
    """The links of one listing: each once, on the same origin, and of the same list."""

    def __init__(
        self, first: str, *others: str, items: int | None = None, also: str | None = None
    ) -> None:
        """Set up the walk from the first page.

        ``others``: other addresses of the list. ``also``: pattern of further paths, in lower case.
        ``items``: how many the list may have.
        """
        self.page = 1
        self._origin = library_origin(first)
        self._paths = {_path(url) for url in (first, *others)}
        self._also = re.compile(also) if also else None
        self._seen = {first}
        self._most = None if items is None else items + _SLACK

    def following(self, link: str, current: str) -> str:
        """Return the URL of the next page.

        Raises:
            LibraryRefusedError: the link leaves the list, or was followed before.
        """
        url = self.checked(link, current)
        if url in self._seen:
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} leads to a page that was read; crawl again later"
            )
        self.page += 1
        if self._most is not None and self.page > self._most:
            raise LibraryRefusedError(
                f"the listing has more than {self._most:,} pages, and fewer items; crawl again"
                " later"
            )
        self._seen.add(url)
        return url

    def checked(self, link: str, current: str) -> str:
        """Return the whole URL of a link.

        Raises:
            LibraryRefusedError: the link leaves the list.
        """
        try:
            url = urljoin(current, link)
            origin, path = library_origin(url), _path(url)
        except ValueError as error:
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} is not a URL; crawl again later"
            ) from error
        if origin != self._origin:
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} leads to {sharepoint_words(origin)}, which gets"
                " no token; check site_url, and that no proxy changes answers"
            )
        if path not in self._paths and not (self._also and self._also.fullmatch(path)):
            raise LibraryRefusedError(
                f"the link to page {self.page + 1} leads to another list"
                f" ({sharepoint_words(path)}); crawl again later"
            )
        return url


def _path(url: str) -> str:
    """Return the path of a URL for comparison: servers encode and spell their own differently."""
    return unquote(urlsplit(url).path).lower().rstrip("/")


class Problems:
    """The problems of one listing, each with its place."""

    def __init__(self, place: str) -> None:
        """Set up; ``place``: the library, for the messages."""
        self.named: list[str] = []
        self._place = place
        self._more = 0

    def add(self, why: str) -> None:
        """Note a problem; from the hundred-and-first on they are counted only."""
        if len(self.named) < _MOST_PROBLEMS:
            self.named.append(redacted_line(f"{self._place} ({why})"))
            return
        if self._more:
            self.named.pop()
        self._more += 1
        self.named.append(f"{self._place} ({self._more:,} more problems like these)")


_APP_ONLY = "unsupported app only token"
_THROTTLED = "spquerythrottledexception"
_NOT_INDEXED = ("list view threshold", "not indexed")


class LibraryClient:
    """Requests to the API at one origin, with its token."""

    def __init__(self, tokens: Tokens, fetch: Fetch, accept: str) -> None:
        """Set up; ``accept``: the media type of answers."""
        self.tokens = tokens
        self._fetch = fetch
        self._headers = {"Accept": accept}

    def answer(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> LibraryAnswer:
        """Return the answer to a GET; a token that is refused is renewed once.

        ``headers``: more than those of each request.

        Raises:
            LibraryError: there is no token or no answer.
        """
        request = self.tokens.authorized(
            LibraryRequest(url, {**self._headers, **headers}, LARGEST_ANSWER)
        )
        answer = self._fetch(request)
        if answer.status == 401 and not _says(answer, _APP_ONLY):
            answer = self._fetch(self.tokens.renewed(request))
        return answer

    def body(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
        """Return the body of a good answer.

        Raises:
            LibraryError: there is none; with the remedy.
        """
        return self.good(self.answer(url, headers))

    def good(self, answer: LibraryAnswer) -> bytes:
        """Return the body of an answer if its status is 200.

        Raises:
            LibraryError: it is another; with the remedy.
        """
        if answer.status != 200:
            raise sharepoint_refusal(answer)
        return answer.body


def sharepoint_refusal(answer: LibraryAnswer) -> LibraryError:
    """Return the error for an answer whose status is not the expected one."""
    code, message = sharepoint_error_words(answer.body)
    why = f"HTTP status {answer.status}"
    if code or message:
        why += f", {sharepoint_words(': '.join(filter(None, (code, message))))}"
    if answer.status == 429 or (answer.status >= 500 and not _says(answer, _THROTTLED)):
        return LibraryUnreachableError(f"{why}; the server is busy: crawl again later")
    return LibraryRefusedError(f"{why}; {_remedy(answer)}")


def _remedy(answer: LibraryAnswer) -> str:
    if _says(answer, _THROTTLED) or (
        answer.status == 400 and any(_says(answer, words) for words in _NOT_INDEXED)
    ):
        return (
            "the filter is over the list view threshold: index the column that the filter names,"
            " or shorten the filter"
        )
    if 300 <= answer.status < 400:
        target = sharepoint_words(library_origin(answer.headers.get("location", "")))
        return f"it redirects to {target}: check site_url"
    match answer.status:
        case 400:
            return "the request was refused: check filter"
        case 401 if _says(answer, _APP_ONLY):
            return (
                "the REST API takes certificates only: set SHAREPOINT_CERTIFICATE, or"
                " SHAREPOINT_API=graph for a secret"
            )
        case 401:
            return (
                "the token was refused: check SHAREPOINT_TENANT, and grant the app a "
                "permission for applications such as Sites.Selected or Sites.Read.All"
            )
        case 403:
            return (
                "the app lacks the right to read it: grant it Sites.Selected for this site or"
                " Sites.Read.All, and consent as administrator"
            )
        case 404 | 410:
            return (
                "there is no such site, library or list, or it was renamed: correct site_url,"
                " sharepoint_url_part or list_name in domain.json"
            )
        case 423:
            return "it is locked: let an administrator unlock it, and crawl again"
        case _:
            return "crawl again later, and check site_url if it lasts"


def _says(answer: LibraryAnswer, words: str) -> bool:
    """Whether an answer has these words, in lower case, in its body or its headers."""
    about = answer.headers.get("www-authenticate", "") + answer.headers.get("x-ms-diagnostics", "")
    return (
        words in answer.body[:65_536].decode("utf-8", "replace").lower() or words in about.lower()
    )


_MOST_PAGES: Final = 200  #: site pages of an answer: they come with their text
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class ClientListing(ABC):
    """One pass over a library by a client of an API (``access.LibraryListing``)."""

    def __init__(self, place: LibraryPlace, client: LibraryClient, page_size: int) -> None:
        """Set up the pass; ``page_size``: items of an answer."""
        self.notes: list[str] = []
        self.root = ""
        self.shortfall: int | None = None
        self.update: DriveUpdate | None = None
        self._problems = Problems(sharepoint_place_shown(place))
        self._place = place
        self._client = client
        is_pages = place.source_type is SourceType.SITEPAGES
        self._size = min(page_size, _MOST_PAGES) if is_pages else page_size

    @property
    def problems(self) -> list[str]:
        """Reasons why the listing is not complete."""
        return self._problems.named

    def pages(self) -> Iterator[list[LibraryItem]]:
        """Yield the items, some at a time. Call it once."""
        try:
            yield from self._pages()
        except PayloadError as error:
            self._problems.add(f"{error}; crawl again later")
        except (LibraryError, SettingError) as error:  # these name their remedies
            self._problems.add(str(error))

    @abstractmethod
    def _pages(self) -> Iterator[list[LibraryItem]]:
        """Yield the items.

        Raises:
            LibraryError: an answer cannot be had.
            PayloadError: an answer is not as documented.
            SettingError: the sign-in needs another setting.
        """

    def _walked(
        self,
        url: str,
        walk: PageWalk,
        items: Callable[[list[Any], int], Iterable[LibraryItem]],
        headers: Mapping[str, str] = _NO_HEADERS,
    ) -> Iterator[list[LibraryItem]]:
        """Yield the items of each answer from ``url`` on.

        ``items`` makes them of the entries of an answer, and of its number.
        """
        while True:
            try:
                page = library_page(self._client.body(url, headers))
            except (LibraryError, PayloadError) as error:
                raise type(error)(f"page {walk.page} of its listing: {error}") from error
            yield list(items(page.items, walk.page))
            if page.next is None:
                return
            url = walk.following(page.next, url)

    def _queried(self, found: Sequence[ListField]) -> list[ListField]:
        """Return the fields of a list that the API shows at once; the others are noted."""
        fields, beyond = sharepoint_query_fields(found)
        if beyond:
            place = sharepoint_place_shown(self._place)
            names = ", ".join(sharepoint_words(field.name) for field in beyond)
            self.notes.append(
                f"{place}: the API shows no more people and lookups at once; left out: {names}"
            )
        return fields

"""The parts that listings by REST and by Graph share: their state, their errors, their pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.sources.sharepoint.access import (
    DriveUpdate,
    LibraryError,
    LibraryPlace,
    sharepoint_place_shown,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.asking import LibraryClient, PageWalk, Problems
from smartcrawl.sources.sharepoint.payloads import (
    ListField,
    PayloadError,
    library_page,
    sharepoint_query_fields,
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

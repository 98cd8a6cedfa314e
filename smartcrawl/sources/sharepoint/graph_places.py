"""The site, the drive and the list of a source in Microsoft Graph, found by path or title."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from smartcrawl.model.library import SourceType
from smartcrawl.sources.sharepoint.access import (
    LibraryPlace,
    LibraryRefusedError,
    sharepoint_site_path,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.asking import LibraryClient
from smartcrawl.sources.sharepoint.paging import PageWalk
from smartcrawl.sources.sharepoint.payloads import (
    GraphPlace,
    library_page,
    sharepoint_json,
    sharepoint_payload,
)

_FACTS: Final = "$select=id,webUrl"
_NAMED: Final = 5  #: libraries of a site that a message names, at most


class GraphPlaces:
    """Look-ups of the places of one source."""

    def __init__(self, place: LibraryPlace, base: str, client: LibraryClient) -> None:
        """Set up; ``base``: GRAPH_URL."""
        self.base = base
        self._place = place
        self._client = client
        self.root = ""  #: server relative URL of the list, set by ``list``
        self._site = ""
        self._list = ""

    @property
    def library_path(self) -> str:
        """The server relative URL of the library as the source has it."""
        return f"{sharepoint_site_path(self._place.site_url)}{self._place.url_part}".rstrip("/")

    def site(self) -> str:
        """Return the address of the site in Graph; it is asked for once."""
        if not self._site:
            parts, path = urlsplit(self._place.site_url), sharepoint_site_path(self._place.site_url)
            name = parts.hostname or ""
            name += f":{quote(path)}" if path else ""
            found = self._get(f"{self.base}/sites/{name}?{_FACTS}")
            self._site = f"{self.base}/sites/{quote(found.id, safe=',')}"
        return self._site

    def drive(self, id_: str = "") -> GraphPlace:
        """Return the drive of the library; ``id_``: that of an earlier listing.

        Raises:
            LibraryRefusedError: the library has no drive, or the drive has another path now.
        """
        if id_:
            answer = self._client.answer(f"{self.base}/drives/{quote(id_, safe='!')}?{_FACTS}")
            if answer.status != 404:  # its library was deleted, and maybe made anew
                found = sharepoint_payload(GraphPlace, sharepoint_json(self._client.good(answer)))
                if self._is_library(found):
                    return found
        return self._of_path(f"{self.site()}/drives?{_FACTS}", "drive")

    def list(self) -> str:
        """Return the address of the list in Graph, and set ``root``.

        Raises:
            LibraryRefusedError: there is none.
        """
        if self._list:
            return self._list
        if self._place.source_type is SourceType.LISTS:
            title = quote(self._place.list_name, safe="")
            found = self._get(f"{self.site()}/lists/{title}?{_FACTS}")
        else:  # system: so that the library of pages is among them
            found = self._of_path(f"{self.site()}/lists?{_FACTS},system", "list")
        self.root = graph_path(found)
        self._list = f"{self.site()}/lists/{quote(found.id, safe='')}"
        return self._list

    def _get(self, url: str) -> GraphPlace:
        return sharepoint_payload(GraphPlace, sharepoint_json(self._client.body(url)))

    def _of_path(self, url: str, kind: str) -> GraphPlace:
        others: list[str] = []
        for found in self._all(url):
            if self._is_library(found):
                return found
            if kind == "drive" and len(others) < _NAMED:  # most lists are no libraries
                others.append(self._url_part(found))
        known = f"; the site has {', '.join(map(sharepoint_words, others))}" if others else ""
        raise LibraryRefusedError(
            f"the site has no {kind} at {sharepoint_words(self.library_path)}: it was renamed, or"
            f" the app may not read it; correct sharepoint_url_part in domain.json{known}"
        )

    def _url_part(self, found: GraphPlace) -> str:
        """Return the sharepoint_url_part that would name a place of the site."""
        return graph_path(found).removeprefix(sharepoint_site_path(self._place.site_url))

    def _all(self, url: str) -> Iterator[GraphPlace]:
        walk: PageWalk | None = None
        while True:
            page = library_page(self._client.body(url))
            for one in page.items:
                yield sharepoint_payload(GraphPlace, one)
            if page.next is None:
                return
            walk = walk or PageWalk(url, items=0)
            url = walk.following(page.next, url)

    def _is_library(self, found: GraphPlace) -> bool:
        return graph_path(found).lower() == self.library_path.lower()


def graph_path(found: GraphPlace) -> str:
    """Return the server relative path of a place, decoded."""
    return unquote(urlsplit(found.web_url).path).rstrip("/")

"""Document libraries, lists and site pages of SharePoint as sources, and their entries."""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote, unquote, urlsplit

from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.model.urls import display_url, url_host_key
from smartcrawl.sources.base import Source
from smartcrawl.sources.listing.entries import Entry, Skip
from smartcrawl.sources.scope import FixedScope
from smartcrawl.sources.sharepoint.access import LibraryListing
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import (
    LIBRARY_URL_KEPT,
    SOURCE_TYPE_FOLDERS,
    embedded_sharepoint_file_type,
    sharepoint_path_problem,
)

logger = logging.getLogger(__name__)


_LIST_FORM: Final = re.compile(r"/DispForm\.aspx\?ID=[1-9][0-9]{0,17}\Z")


@dataclass(frozen=True, slots=True)
class LibraryScope(FixedScope):
    """The URLs of the items of a library that can be embedded (R3-74).

    The folder of a list has not the name of the list, so a list has the URLs of its site.
    """

    origin: str  #: scheme and host of the site
    library_path: str  #: server-relative, decoded, without a slash at its end; of a list: its site
    source_type: SourceType
    list_name: str = ""  #: display title; empty but for lists
    filter: str = ""  #: OData expression
    accepted: tuple[str, ...] = CRAWLER_HARDCODED_CONFIG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES

    @property
    def hosts(self) -> frozenset[str]:
        """The host of the site."""
        return frozenset({url_host_key(f"{self.origin}/")})

    def holds(self, url: str) -> bool:
        """Whether a URL is below the library; the item itself may be refused."""
        path = self._path(url)
        return path is not None and path.startswith(f"{self.library_path}/")

    def refusal(self, url: str) -> str | None:
        """Return the reason why an item does not belong to the source, or None if it does."""
        path = self._path(url)
        if path is None or not path.startswith(f"{self.library_path}/"):
            root = self.origin + quote(self.library_path, safe=LIBRARY_URL_KEPT)
            return f"it is not below {display_url(root)}"
        problem = sharepoint_path_problem(path.removeprefix(f"{self.library_path}/"))
        if problem is not None:
            return problem
        extension = embedded_sharepoint_file_type(self.source_type, path.rpartition("/")[2])
        if extension not in self.accepted:
            kind = f"files of type .{extension}" if extension else "files without a type"
            return f"{kind} are not embedded"
        return None

    def _path(self, url: str) -> str | None:
        """Return the decoded path of a URL of the site's host, or None.

        The URL of a list item is that of the form that shows it. Others have no query.
        """
        if self.source_type is SourceType.LISTS:
            if _LIST_FORM.search(url) is None:
                return None
            url = url.partition("?")[0]
        if not url.startswith(f"{self.origin}/") or "?" in url or "#" in url:
            return None
        return unquote(url[len(self.origin) :], errors="surrogateescape")

    def fingerprint(self) -> bytes:
        """Return a 16-byte digest of the settings that ``allows`` depends on (M-15).

        It includes the filter, which decides what a listing has.
        """
        parts = [
            self.origin,
            self.library_path,
            self.source_type,
            self.list_name,
            self.filter,
            sorted(self.accepted),
        ]
        return sha256(json.dumps(parts).encode()).digest()[:16]


class SharepointSource(Source):
    """A document library, a list, or the site pages of a site, as a domain.json declares it.

    Its name is ``DOMAIN.SOURCE``. Source: R3-08 to R3-10.
    """

    kind: Literal["sharepoint"] = "sharepoint"
    domain: str
    source_id: str
    source_type: SourceType
    site_url: str  #: request URL of the site, without a slash at its end
    url_part: str = ""  #: ``sharepoint_url_part``, begins with a slash; empty for lists
    list_name: str = ""  #: display title; empty but for lists
    filter: str = ""  #: OData expression; empty: none
    storage: Path  #: PERSISTENT_STORAGE_PATH

    @property
    def origin(self) -> str:
        """Scheme and host of the site, without a slash at the end."""
        parts = urlsplit(self.site_url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def host(self) -> str:
        """The host of the site, with its port where it is not the scheme's own."""
        return url_host_key(f"{self.origin}/")

    @property
    def site_path(self) -> str:
        """The decoded path of the site without a slash at its end; of the root site: empty."""
        return unquote(urlsplit(self.site_url).path).rstrip("/")

    @property
    def library_path(self) -> str:
        """The server-relative URL of the library, decoded; of a list: of its site."""
        return self.site_path + self.url_part

    @property
    def keeps_snapshots(self) -> bool:
        """Whether bodies are stored: files are on disk, and listings carry the others."""
        return False

    @property
    def folder(self) -> Path:
        """The folder of its files and maps (R3-47 to R3-49)."""
        crawler = CRAWLER_HARDCODED_CONFIG.PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER
        kind = SOURCE_TYPE_FOLDERS[self.source_type]
        return self.storage / crawler / self.domain / kind / self.source_id

    @cached_property
    def scope(self) -> LibraryScope:
        """The items of the library that can be embedded."""
        return LibraryScope(
            self.origin, self.library_path, self.source_type, self.list_name, self.filter
        )

    @property
    def starts(self) -> tuple[str, ...]:
        """The address of the library; of a list: of its site."""
        return (self.origin + quote(self.library_path or "/", safe=LIBRARY_URL_KEPT),)


_MICROSECONDS: Final = 1_000_000
_ACCEPTED: Final = frozenset(CRAWLER_HARDCODED_CONFIG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES)


def library_item_key(host: str, unique_id: str) -> str:
    """Return the identity of an item, which rename and move do not change (R3-31).

    >>> library_item_key("contoso.sharepoint.com", "0F8FAD5B")
    'sharepoint://contoso.sharepoint.com/0f8fad5b'
    """
    return f"sharepoint://{host}/{unique_id.lower()}"


def sharepoint_item_validator(item: LibraryItem) -> str:
    """Return a digest of the four compared fields (R3-02), and of a content that was listed.

    Two items have the same one exactly if ``rules.library.is_changed`` is false of them.
    """
    fields = [
        item.filename,
        item.server_relative_url,
        item.file_size,
        item.last_modified,
        item.content,
    ]
    return sha256(json.dumps(fields).encode()).hexdigest()[:32]


class LibraryEntries:
    """A library's listing as the engine takes it: items of types that are embedded (R3-74)."""

    def __init__(
        self,
        source: SharepointSource,
        listing: LibraryListing,
        *,
        again: Collection[str] = (),
        listed: Callable[[LibraryItem], None] | None = None,
    ) -> None:
        """``again``: unique ids of items whose files must come again.

        ``listed`` is called with each item, whether its type is embedded or not.
        """
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.listed = 0  #: entries
        self._source = source
        self._listing = listing
        self._again = again
        self._listed = listed

    @property
    def shortfall(self) -> int | None:
        """The number of items that the library counts and the listing lacks; None: not counted."""
        return self._listing.shortfall

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the entries, those of one answer at a time. Call it once."""
        host = self._source.host
        kind = self._source.source_type
        for items in self._listing.pages():
            entries = []
            for item in items:
                if self._listed is not None:
                    self._listed(item)
                file_type = embedded_sharepoint_file_type(kind, item.filename)
                if file_type not in _ACCEPTED:
                    self.skipped[Skip.TYPE] += 1
                    which = f"of type .{file_type}" if file_type else "without a type"
                    name = item.server_relative_url
                    logger.info("%s is skipped: vector stores take no files %s", name, which)
                    continue
                entries.append(
                    Entry(
                        item.url,
                        item.file_size,
                        sharepoint_item_validator(item),
                        item.last_modified // _MICROSECONDS,
                        library_item_key(host, item.unique_id),
                        item,
                        item.unique_id in self._again,
                    )
                )
            self.listed += len(entries)
            yield entries
        self.problems += self._listing.problems
        self.notes += self._listing.notes

    def replacing(self, taken: list[list[Entry]]) -> list[list[Entry]]:
        """Return those of all entries that a forced run may read, once the listing has ended.

        It replaces every file, and only after a complete listing (ADR 83).
        """
        if not self.problems:
            return taken
        self.notes.append(
            f"{self._source.name}: its listing is not complete, so nothing is replaced: repeat the"
            " full download, or download without --mode full what was listed"
        )
        return []

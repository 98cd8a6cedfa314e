"""Document libraries, lists and site pages of SharePoint as sources."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote, unquote, urlsplit

from smartcrawl.model.library import SourceType
from smartcrawl.model.urls import display_url, url_host_key
from smartcrawl.sources.base import Source
from smartcrawl.sources.scope import FixedScope
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import (
    LIBRARY_URL_KEPT,
    SOURCE_TYPE_FOLDERS,
    embedded_sharepoint_file_type,
    sharepoint_path_problem,
)

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

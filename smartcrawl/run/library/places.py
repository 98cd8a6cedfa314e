"""The places of a library's items on disk."""

from __future__ import annotations

from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.sources.sharepoint.paths import (
    LibraryPathError,
    get_expected_local_path,
    get_failed_local_path,
    get_original_local_path,
    sharepoint_name_of_page_file,
    sharepoint_path_excess,
    source_path,
)
from smartcrawl.sources.sharepoint.source import SharepointSource


class LibraryPlaces:
    """The place of each item, below the folder of its source."""

    def __init__(self, source: SharepointSource) -> None:
        #: Server relative URL of the library, as the library spells it.
        self.root = source.library_path
        self._source = source
        self._prefix = source_path(source.domain, source.source_type, source.source_id) + "/"

    def refusal(self, item: LibraryItem) -> str | None:
        """Return the reason why an item can have no place on disk, or None."""
        try:
            self.path(item)
        except LibraryPathError as error:
            return str(error)
        return None

    def path(self, item: LibraryItem) -> str:
        """Return the place of an item after its download, below the folder of the source."""
        place = get_original_local_path(*self._named(item))
        return place.removeprefix(self._prefix)

    def _named(self, item: LibraryItem) -> tuple[str, SourceType, str, str, str]:
        source = self._source
        return (
            source.domain,
            source.source_type,
            source.source_id,
            item.server_relative_url,
            self.root,
        )

    def excess(self, item: LibraryItem) -> str | None:
        """Return the reason why the place of an item is too long for the system, or None (E2)."""
        whole = (
            get_original_local_path(*self._named(item)),
            get_expected_local_path(*self._named(item)),
        )
        found = (sharepoint_path_excess(self._source.storage, path) for path in whole)
        return next(filter(None, found), None)

    def failed_path(self, item: LibraryItem) -> str:
        """Return the place of the note about an item whose own place is too long."""
        source = self._source
        place = get_failed_local_path(
            source.domain, source.source_type, source.source_id, item.unique_id
        )
        return place.removeprefix(self._prefix)

    def failed_note(self, item: LibraryItem, reason: str) -> bytes:
        """Return the note about an item whose own place is too long: its URL and the reason."""
        return f"{item.url}\n{reason}\n".encode()

    def indexed_name(self, item: LibraryItem) -> str:
        """Return the name of an item as it is embedded, by which its type is known."""
        match self._source.source_type:
            case SourceType.FILES:
                return item.filename
            case SourceType.LISTS:
                return f"{item.listitem_id}.md"
            case SourceType.SITEPAGES:
                return sharepoint_name_of_page_file(item.filename)

"""The map of what is embedded of a library (R3-52 to R3-55)."""

from __future__ import annotations

from typing import NamedTuple, Self

from smartcrawl.sources.sharepoint.mapfiles import FilesMapRow
from smartcrawl.sources.sharepoint.maptext import SECOND, sharepoint_map_time


class EmbeddedFile(NamedTuple):
    """A file in a store that has embedded it."""

    file: str  #: its id
    store: str  #: id of the store
    uploaded_at: int | None  #: Unix seconds, by the server
    embedded_at: int | None


class VectorstoreMapRow(NamedTuple):
    """One item that is embedded, or could not be; the fields are the columns (R3-52)."""

    openai_file_id: str
    vector_store_id: str
    file_relative_path: str  #: path with backslashes (R3-54); empty: it is not on disk
    sharepoint_listitem_id: int | None
    sharepoint_unique_file_id: str
    filename: str
    file_type: str
    file_size: int | None  #: bytes
    last_modified_utc: str
    last_modified_timestamp: int | None  #: Unix seconds
    downloaded_utc: str  #: that of the map of files (R3-55)
    downloaded_timestamp: int | None
    uploaded_utc: str
    uploaded_timestamp: int | None
    embedded_utc: str
    embedded_timestamp: int | None
    sharepoint_error: str
    processing_error: str
    embedding_error: str

    @classmethod
    def of(cls, row: FilesMapRow, embedded: EmbeddedFile | None, error: str) -> Self:
        """Return the row of an item; without an embedded file its ids and times are empty."""
        uploaded = embedded and embedded.uploaded_at
        since = embedded and embedded.embedded_at
        return cls(
            embedded.file if embedded else "",
            embedded.store if embedded else "",
            row.file_relative_path,
            row.sharepoint_listitem_id,
            row.sharepoint_unique_file_id,
            row.filename,
            row.file_type,
            row.file_size,
            row.last_modified_utc,
            row.last_modified_timestamp,
            row.downloaded_utc,
            row.downloaded_timestamp,
            sharepoint_map_time(uploaded * SECOND) if uploaded else "",
            uploaded or None,
            sharepoint_map_time(since * SECOND) if since else "",
            since or None,
            row.sharepoint_error,
            row.processing_error,
            error,
        )

"""``files_metadata.json``: one entry for each embedded version of a file (R3-141 to R3-148).

Other tools add custom properties to the entries, and entries of their own.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from smartcrawl.model.library import LibraryItem, LibraryRow, SourceType
from smartcrawl.sources.sharepoint.access import library_item_url, list_item_url
from smartcrawl.sources.sharepoint.aside import replacing, write_sharepoint_source_file
from smartcrawl.sources.sharepoint.busy_files import retry_busy_sharepoint_file
from smartcrawl.sources.sharepoint.maptext import SECOND, sharepoint_map_time
from smartcrawl.sources.sharepoint.paths import sharepoint_map_path, source_path
from smartcrawl.sources.sharepoint.source import SharepointSource

Entry = dict[str, Any]

#: Fields of an entry in their order; every other one is a custom property (R3-144).
STANDARD_FIELDS: Final = (
    "sharepoint_listitem_id", "sharepoint_unique_file_id", "openai_file_id", "file_relative_path",
    "url", "raw_url", "server_relative_url", "filename", "file_type", "file_size",
    "last_modified_utc", "last_modified_timestamp", "embedded_utc", "source_id", "source_type",
)  # fmt: skip
_STANDARD: Final = frozenset(STANDARD_FIELDS)


class EmbeddedVersion(NamedTuple):
    """A file that a vector store has completed."""

    openai_file_id: str
    vector_store_id: str
    embedded_utc: str  #: as maps have times
    source: SharepointSource
    row: LibraryRow  #: its item, as it was embedded


class ReadMetadata(NamedTuple):
    """A ``files_metadata.json`` as it was found."""

    entries: list[Entry]
    is_missing: bool = False
    damage: str = ""  #: why it cannot be read; empty: it can


def sharepoint_metadata_entry(file: EmbeddedVersion) -> Entry:
    """Return the entry of an embedded file, with the standard fields alone."""
    source, row = file.source, file.row
    url = library_item_url(source.site_url, row.server_relative_url)
    if source.source_type is SourceType.LISTS:
        folder = row.server_relative_url.rpartition("/")[0]
        url = list_item_url(source.site_url, folder, row.listitem_id)
    item = LibraryItem(
        row.listitem_id, row.unique_id, row.filename, row.server_relative_url, row.file_size,
        row.last_modified, url,
    )  # fmt: skip
    top = source_path(source.domain, source.source_type, source.source_id)
    values = (
        item.listitem_id, item.unique_id, file.openai_file_id,
        "" if row.path is None else sharepoint_map_path(f"{top}/{row.path}"),
        url, unquote(url), item.server_relative_url, item.filename, item.file_type, item.file_size,
        sharepoint_map_time(item.last_modified), item.last_modified // SECOND, file.embedded_utc,
        source.source_id, str(source.source_type),
    )  # fmt: skip
    return dict(zip(STANDARD_FIELDS, values, strict=True))


def carry_over_sharepoint_properties(
    new_entry: Mapping[str, Any], previous_entries: Sequence[Mapping[str, Any]]
) -> Entry:
    """Return an entry with the custom properties of the version that was embedded last (R3-146)."""
    if not previous_entries:
        return dict(new_entry)
    latest = max(previous_entries, key=lambda entry: _text(entry, "embedded_utc"))
    carried = {key: value for key, value in latest.items() if key not in _STANDARD}
    return {**new_entry, **{key: carried[key] for key in carried if key not in new_entry}}


def updated_sharepoint_metadata(
    entries: Sequence[Entry], files: Iterable[EmbeddedVersion]
) -> list[Entry]:
    """Return the entries with those of files that have none yet; the old ones stay (R3-145)."""
    updated = list(entries)
    known = {_text(entry, "openai_file_id") for entry in entries}
    versions: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        versions[_text(entry, "sharepoint_unique_file_id").lower()].append(entry)
    for file in files:
        if file.openai_file_id in known:
            continue
        known.add(file.openai_file_id)
        of_file = versions[file.row.unique_id.lower()]
        entry = carry_over_sharepoint_properties(sharepoint_metadata_entry(file), of_file)
        of_file.append(entry)
        updated.append(entry)
    return updated


def cleaned_sharepoint_metadata(
    entries: Sequence[Entry], attached: Collection[str], mapped: Collection[str]
) -> list[Entry]:
    """Return the entries that stay (R3-148).

    ``attached``: the ids of all files of the store. ``mapped``: the unique ids, in lower case, of
    all maps. An entry without an ``openai_file_id`` is that of another tool, and stays.
    """
    return [
        entry
        for entry in entries
        if not (id_ := _text(entry, "openai_file_id"))
        or (id_ in attached and _is_mapped(entry, mapped))
    ]


def _is_mapped(entry: Mapping[str, Any], mapped: Collection[str]) -> bool:
    unique_id = _text(entry, "sharepoint_unique_file_id").lower()
    return not unique_id or unique_id in mapped


def _text(entry: Mapping[str, Any], key: str) -> str:
    """Return the text of a field; anything else counts as missing."""
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def sharepoint_metadata_file_id(entry: Mapping[str, Any]) -> str | None:
    """Return the ``openai_file_id`` of an entry; None: it has none."""
    return _text(entry, "openai_file_id") or None


# The file


def read_sharepoint_metadata(path: Path) -> ReadMetadata:
    """Return the entries of a file; it never raises."""
    try:
        data = retry_busy_sharepoint_file(path.read_bytes)
    except FileNotFoundError:
        return ReadMetadata([], is_missing=True)
    except OSError as error:
        return ReadMetadata([], damage=f"it cannot be read ({error.strerror})")
    try:
        entries = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return ReadMetadata([], damage=f"it is no JSON: {str(error)[:200]}")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return ReadMetadata([], damage="it is no array of objects")
    return ReadMetadata(entries)


def sharepoint_metadata_looks_whole(path: Path) -> bool:
    """Whether a file begins and ends as an array, without reading the rest."""
    try:
        with path.open("rb") as file:
            first = file.read(1)
            file.seek(-min(2, path.stat().st_size), 2)
            return first == b"[" and file.read().rstrip().endswith(b"]")
    except OSError:
        return False


def write_sharepoint_metadata(path: Path, entries: Sequence[Entry]) -> None:
    """Replace a file; readers see the old one or the new one, whole.

    Raises:
        OSError: it cannot be written.
    """
    text = json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
    # Half of a surrogate pair, which has no UTF-8, becomes its escape.
    data = text.encode("utf-8", "backslashreplace")
    write_sharepoint_source_file(path, lambda file: file.write(data), replacing)

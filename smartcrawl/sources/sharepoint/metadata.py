"""``files_metadata.json``: one entry for each embedded version of a file (R3-141 to R3-148).

Other tools add custom properties to the entries, and entries of their own.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO
from urllib.parse import unquote

from smartcrawl.model.library import LibraryItem, LibraryRow, SourceType
from smartcrawl.sources.private_files import (
    replacing,
    retry_busy_sharepoint_file,
    write_sharepoint_source_file,
)
from smartcrawl.sources.sharepoint.access import library_item_url, list_item_url
from smartcrawl.sources.sharepoint.mapfiles import SECOND, sharepoint_map_time
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
        return ReadMetadata([], damage=f"it is not valid JSON: {str(error)[:200]}")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        return ReadMetadata([], damage="it is not an array of objects")
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


_BLOCK: Final = 1 << 16  #: characters that are read at once
_SPACE: Final = re.compile(r"[ \t\n\r]*+").match
_NO_ARRAY: Final = "it is not an array of objects"
_DECODER: Final = json.JSONDecoder()


def streamed_sharepoint_metadata(path: Path) -> Iterator[Entry]:
    """Yield the entries of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    with retry_busy_sharepoint_file(lambda: path.open(encoding="utf-8-sig")) as file:
        text = _Window(file)
        if text.next_character() != "[":
            raise ValueError(_NO_ARRAY)
        text.skip()
        is_ended = text.next_character() == "]"
        while not is_ended:
            entry = text.value()
            if not isinstance(entry, dict):
                raise ValueError(_NO_ARRAY)
            yield entry
            separator = text.next_character()
            if separator not in (",", "]"):
                raise ValueError(
                    f"it is not valid JSON: {separator or 'its end'!r} instead of a comma"
                )
            is_ended = separator == "]"
            if not is_ended:
                text.skip()
        text.skip()
        if text.next_character():
            raise ValueError("it is not valid JSON: more follows its array")


class _Window:
    """The part of a file that is looked at."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._place = 0

    def next_character(self) -> str:
        """Return the next character that is no space, or an empty text at the end."""
        while True:
            space = _SPACE(self._text, self._place)
            assert space is not None, "it matches nothing, too"
            self._place = space.end()
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._reads_more():
                return ""

    def skip(self) -> None:
        """Go behind the next character."""
        self._place += 1

    def value(self) -> Any:
        """Return the next value, and go behind it.

        Raises:
            ValueError: there is none.
        """
        self.next_character()
        while True:
            try:
                value, self._place = _DECODER.raw_decode(self._text, self._place)
            except RecursionError as error:
                raise ValueError(f"it is not valid JSON: {error}") from error
            except ValueError as error:
                if not self._reads_more():
                    raise ValueError(f"it is not valid JSON: {str(error)[:200]}") from error
            else:
                return value

    def _reads_more(self) -> bool:
        """Read a block, twice as much where a value is long; return whether there was more."""
        more = self._file.read(max(_BLOCK, len(self._text) - self._place))
        self._text, self._place = self._text[self._place :] + more, 0
        return bool(more)

"""``files_metadata.json`` of a domain, kept in step with the registry's note of it (R3-141)."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from smartcrawl.model.exceptions import SourceError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.embedding import (
    metadata_note_rows,
    noted_file_id_rows,
    store_metadata_note_row,
)
from smartcrawl.sources.private_files import (
    sharepoint_file_beside_others,
    write_sharepoint_source_file,
)
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import sharepoint_map_unique_ids
from smartcrawl.sources.sharepoint.metadata import (
    EmbeddedVersion,
    Entry,
    cleaned_sharepoint_metadata,
    read_sharepoint_metadata,
    sharepoint_metadata_file_id,
    sharepoint_metadata_looks_whole,
    updated_sharepoint_metadata,
    write_sharepoint_metadata,
)

_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
_TRIES: Final = 5  #: where another tool writes the file meanwhile


class MetadataResult(NamedTuple):
    """The result of a change of ``files_metadata.json``."""

    added: int = 0  #: entries
    removed: int = 0  #: entries
    remaining: int = 0  #: entries of the file
    lines: tuple[str, ...] = ()  #: for the log


def run_entries_in_words(number: int) -> str:
    """Return a number of entries in words."""
    return f"{number:,} entr{'y' if number == 1 else 'ies'}"


class LibraryMetadata:
    """The ``files_metadata.json`` of one domain."""

    def __init__(self, domain: Domain, connection: Connection, now: datetime) -> None:
        self._domain = domain
        self._connection = connection
        self._now = now
        self._path = domain.path.with_name(_CONFIG.FILES_METADATA_JSON)

    def update(
        self, embedded: Iterable[EmbeddedVersion], *, is_mending: bool = False
    ) -> MetadataResult:
        """Add the files that have no entry yet; all files of the store may be given.

        ``is_mending``: entries of theirs that were taken out of the file come back as they were.

        Raises:
            OSError: the file cannot be written.
        """
        by_id = {file.openai_file_id: file for file in embedded}
        if not is_mending and self.has_all(by_id.keys()):
            return MetadataResult()

        def changed(entries: Sequence[Entry]) -> list[Entry]:
            lost = self._lost(entries, by_id.keys()) if is_mending else []
            return updated_sharepoint_metadata([*entries, *lost], by_id.values())

        before, after, lines = self._changed(changed)
        return MetadataResult(after - before, 0, after, lines)

    def has_all(self, ids: Set[str]) -> bool:
        """Whether files, by their ``openai_file_id``, have their entries, and no file is damaged.

        This reads no entry.
        """
        known = noted_file_id_rows(self._connection, self._domain.domain_id, ids)
        return known == ids and (not ids or sharepoint_metadata_looks_whole(self._path))

    def cleanup(self, attached: Callable[[], Collection[str]]) -> MetadataResult:
        """Remove the entries of files that the store or every map lacks (R3-148).

        ``attached`` returns the ids of all files of the store, or raises.

        Raises:
            SourceError: a source has no whole map; nothing is removed.
            OSError: the file cannot be written.
        """
        mapped = self._mapped()
        found = attached()
        before, after, lines = self._changed(
            lambda entries: cleaned_sharepoint_metadata(entries, found, mapped)
        )
        return MetadataResult(0, before - after, after, lines)

    def _changed(
        self, change: Callable[[Sequence[Entry]], list[Entry]]
    ) -> tuple[int, int, tuple[str, ...]]:
        """Change the entries; return their numbers before and after, and lines for the log.

        An edit of another tool that comes meanwhile is not lost: the change is made again.
        """
        with self._locked():
            for last in [False] * _TRIES + [True]:
                stamp = self._stamp()
                read = read_sharepoint_metadata(self._path)
                entries = self._noted() if read.damage or read.is_missing else read.entries
                changed = change(entries)
                if last or self._stamp() == stamp:
                    break
            lines = []
            rebuilt = f"rebuilt with {run_entries_in_words(len(entries))} of the registry"
            if read.damage:
                kept = self._set_aside()
                lines = [f"{self._path} is damaged, {read.damage}: kept as {kept.name}, {rebuilt}"]
            elif read.is_missing and entries:
                lines = [f"{self._path} is missing: {rebuilt}"]
            if lines or changed != entries:
                self._write(changed)
        return len(entries), len(changed), tuple(lines)

    def _stamp(self) -> tuple[int, ...] | None:
        """Return facts of the file that an edit changes."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _mapped(self) -> set[str]:
        """Return the unique ids of the maps of all sources, in lower case.

        Raises:
            SourceError: one of them is missing or damaged, or there is no source.
        """
        if not self._domain.every_source:
            raise SourceError(f"{self._domain.path} declares no source: nothing was removed")
        mapped: set[str] = set()
        for source in self._domain.every_source:
            path = source.folder / _CONFIG.VECTOR_STORE_MAP_CSV
            try:
                mapped |= {unique_id.lower() for unique_id in sharepoint_map_unique_ids(path)}
            except (OSError, ValueError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or str(error)
                raise SourceError(
                    f"{path} cannot be read ({why}): nothing was removed; embed "
                    f"{source.name}, which writes it again"
                ) from error
        return mapped

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Let one process at a time change the file."""
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def _noted(self) -> list[Entry]:
        """Return the entries as they were last written."""
        noted = metadata_note_rows(self._connection, self._domain.domain_id)
        return [json.loads(entry) for entry in noted]

    def _lost(self, entries: Sequence[Entry], ids: Set[str]) -> list[Entry]:
        """Return noted entries of some files that are not among entries."""
        left = ids - {sharepoint_metadata_file_id(entry) for entry in entries}
        return [
            entry for entry in self._noted() if left and sharepoint_metadata_file_id(entry) in left
        ]

    def _set_aside(self) -> Path:
        """Keep a damaged file under another name, until it is replaced under its own, too."""
        time = self._now.strftime("%Y%m%dT%H%M%SZ")
        aside = self._path.with_name(f"{self._path.name}.damaged-{time}")
        with suppress(OSError):  # a folder in its place is renamed
            data = self._path.read_bytes()
            return write_sharepoint_source_file(
                aside, lambda file: file.write(data), sharepoint_file_beside_others
            )
        os.rename(self._path, aside)
        return aside

    def _write(self, entries: Sequence[Entry]) -> None:
        """Note the entries in the registry, and replace the file."""
        noted = [(sharepoint_metadata_file_id(entry), json.dumps(entry)) for entry in entries]
        store_metadata_note_row(self._connection, self._domain.domain_id, noted)
        write_sharepoint_metadata(self._path, entries)

"""The check of a library's disk against the registry, before and after each download (R3-131)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice

from smartcrawl.model.library import LibraryRow
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import (
    library_body_hash_rows,
    library_rows,
    library_rows_at,
    library_rows_of,
    library_rows_since,
)
from smartcrawl.registry.library.shelf import KEPT
from smartcrawl.rules.library import LackingFile, decide_library_corrections
from smartcrawl.run.library.comparison import Difference, LibraryComparison, Pair
from smartcrawl.run.library.maps import LibraryMaps
from smartcrawl.run.library.result import Integrity
from smartcrawl.sources.sharepoint.source import SharepointSource

_BATCH = 500  #: items of one look-up


@dataclass(frozen=True, slots=True)
class LibraryFindings:
    """Differences that a check found, and their corrections."""

    again: frozenset[str] = frozenset()  #: unique ids of items whose files must come again
    adopted: Mapping[str, LibraryRow] = field(default_factory=dict)  #: of a map, by unique id
    known: frozenset[str] = frozenset()  #: paths of files that the map names
    integrity: Integrity = field(default_factory=Integrity)
    lines: tuple[str, ...] = ()  #: for the log
    again_lines: tuple[str, ...] = ()  #: about items whose files must come again, for the log
    is_map_whole: bool = True  #: whether the map could be read, but for single rows
    falls_back: bool = False  #: whether every file comes again, as with mode=full


@dataclass(slots=True)
class _Corrected:
    """The result of one comparison of the disk with the items."""

    has_items: bool = False
    verified: int = 0  #: items whose files are at their places
    #: Paths of items that the map lacks, and of those that the disk lacks, by unique id.
    unmapped: dict[str, str | None] = field(default_factory=dict)
    again: dict[str, str | None] = field(default_factory=dict)
    orphans: tuple[str, ...] = ()
    moved: int = 0


class LibraryCheck:
    """Compares the files of a source with its stored items, and corrects the disk."""

    def __init__(self, source: SharepointSource, folder: LibraryFolder, source_no: int) -> None:
        self._source = source
        self._folder = folder
        self._no = source_no

    def before(self, connection: Connection, maps: LibraryMaps) -> LibraryFindings:
        """Return the items that must come again: missing, damaged, or edited in the map.

        A misplaced file goes back to its place, and files that no item refers to are deleted.
        """
        digests = {
            row.unique_id: maps.mapped_digest(row) for row in library_rows(connection, self._no)
        }
        has_items = bool(digests)
        read = maps.read_files_map(digests)
        lines = [*read.lines, *(read.unknown_lines(digests.keys()) if has_items else ())]
        del digests
        newer = library_rows_since(connection, self._no, read.written) if read.is_whole else set()
        agreeing = read.read.agreeing

        def is_mapped(row: LibraryRow) -> bool:
            """Whether the map has an item as the registry has it, or cannot have it."""
            is_kept = row.path is not None and row.path.startswith(f"{KEPT}/")
            return is_kept or row.no in newer or row.unique_id in agreeing

        found = self._corrected(connection, is_mapped, lines)
        adoptable = read.adoptable
        places = [row.path for row in adoptable.values() if row.path is not None]
        taken = library_rows_at(connection, self._no, places)
        adopted = {each: row for each, row in adoptable.items() if row.path not in taken}
        known = frozenset(row.path for row in adopted.values() if row.path is not None)
        # Without an item they may be where a file belongs.
        orphans = [path for path in found.orphans if has_items and path not in known]
        again = found.unmapped | found.again
        return LibraryFindings(
            again=frozenset(again),
            adopted=adopted,
            known=known,
            integrity=Integrity(
                missing_in_map=len(found.unmapped),
                missing_on_disk=len(again) - len(found.unmapped),
                orphans=self._without_orphans(orphans, lines),
                moved=found.moved,
                verified=found.verified,
            ),
            lines=tuple(lines),
            again_lines=tuple(
                f"{again[each] or each} is missing or damaged, or the map has it otherwise:"
                " it comes again"
                for each in sorted(again)
            ),
            is_map_whole=read.is_whole,
            falls_back=read.falls_back,
        )

    def after(
        self, connection: Connection, before: LibraryFindings, *, is_whole: bool
    ) -> LibraryFindings:
        """Delete the files that no item refers to, and count those that are verified.

        ``is_whole``: whether this run listed the library to its end. Without that, a file may
        belong to an item that the registry does not know yet: no row is no reason to delete.
        """
        lines: list[str] = []
        found = self._corrected(connection, lambda row: True, lines)
        orphans = self._without_orphans(
            (
                path
                for path in found.orphans
                if is_whole or (found.has_items and path not in before.known)
            ),
            lines,
        )
        lines += [
            f"{path} is missing or damaged; the next download fetches it"
            for path in found.again.values()
            if path is not None
        ]
        integrity = replace(
            before.integrity,
            orphans=before.integrity.orphans + orphans,
            moved=before.integrity.moved + found.moved,
            verified=found.verified,
        )
        return replace(before, integrity=integrity, lines=tuple(lines), again_lines=())

    def _without_orphans(self, paths: Iterable[str], lines: list[str]) -> int:
        """Delete files that no item refers to; return their number (R3-136)."""
        removed = 0
        for path in paths:
            try:
                if self._folder.remove(path):
                    removed += 1
                    lines.append(f"{path} is deleted: no item of the library is at this place")
            except OSError as error:
                lines.append(f"{path} cannot be deleted: {error.strerror}")
        return removed

    def _corrected(
        self, connection: Connection, is_mapped: Callable[[LibraryRow], bool], lines: list[str]
    ) -> _Corrected:
        """Compare the disk with the items, and move misplaced files.

        ``is_mapped``: whether the map has an item; the file of another is left alone.
        """
        found = _Corrected()

        def rows() -> Iterator[tuple[LibraryRow, bool]]:
            for row in library_rows(connection, self._no):
                found.has_items = True
                is_needed = row.path is None or is_mapped(row)
                if not is_needed:
                    found.unmapped[row.unique_id] = row.path
                elif row.path is not None:
                    found.verified += 1
                yield row, is_needed

        comparison = LibraryComparison(connection, self._source, self._no, self._folder)
        spare: dict[str, int] = {}
        differing: list[Pair] = []
        for pair in comparison.disk(rows(), tidies=True):
            if pair.difference is Difference.SURPLUS:
                spare[pair.key] = comparison.size_of(pair)
            else:
                differing.append(pair)
        lacking = {
            file.unique_id: file for file in self._lacking(connection, comparison, differing, found)
        }
        found.verified -= len(lacking)
        wanted = decide_library_corrections(lacking.values(), spare)
        found.orphans, found.moved = wanted.orphans, len(wanted.moves)
        found.again |= {each: lacking[each].path for each in wanted.missing_on_disk}
        for move in wanted.moves:
            try:
                self._folder.rename(move.source, move.target)
            except OSError as error:
                found.again[move.unique_id] = move.target
                lines.append(f"{move.source} cannot be moved to {move.target}: {error.strerror}")
            else:
                lines.append(f"{move.source} is moved to {move.target}, its place")
                self._folder.tidy(move.source)
        return found

    def _lacking(
        self,
        connection: Connection,
        comparison: LibraryComparison,
        differing: Iterable[Pair],
        found: _Corrected,
    ) -> Iterator[LackingFile]:
        """Yield the files of items that are missing or damaged.

        An item that lacks its place or its original is to come again (R3-79, M-53).
        """
        left = iter(differing)
        while some := list(islice(left, _BATCH)):
            numbers = [int(pair.name) for pair in some if pair.key != comparison.list]
            rows = library_rows_of(connection, numbers)
            hashes = library_body_hash_rows(connection, numbers)
            for pair in some:
                if pair.key == comparison.list:
                    for row in library_rows(connection, self._no):
                        if row.path == pair.key and row.unique_id not in found.unmapped:
                            yield LackingFile(row.unique_id, pair.key, None)
                    continue
                row = rows[int(pair.name)]
                if row.path != pair.key:
                    found.again[row.unique_id] = row.path
                elif pair.difference is Difference.MISSING or not self._is_same(
                    row, pair.key, hashes.get(row.no)
                ):
                    has_size = comparison.has_files and not comparison.is_note(row)
                    size = row.file_size if has_size else None
                    yield LackingFile(row.unique_id, pair.key, size)

    def _is_same(self, row: LibraryRow, path: str, digest: bytes | None) -> bool:
        """Whether only the date of a file is another; then it is set."""
        facts = self._folder.facts(path)
        if facts is None or facts[0] != row.file_size or digest is None:
            return False
        try:
            if sha256(self._folder.read(path)).digest() != digest:
                return False
            self._folder.stamp(path, row.last_modified)
        except OSError:
            return False
        return True

"""The report of a command or job at a domain, and the archives of crawls that keep it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SmartcrawlError, SourceError
from smartcrawl.model.program import program_argument, program_name
from smartcrawl.registry.library.items import TRIMMED
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.reports.tables import text_for_spreadsheet
from smartcrawl.rules.run_orders import INTERRUPTED, ORDER_REASONS
from smartcrawl.run.library.files import RunLibrary
from smartcrawl.run.library.result import FULL, LibraryResult
from smartcrawl.sources.private_files import (
    folder_like_its_parent,
    remove_abandoned_sharepoint_files,
    sharepoint_file_as_new,
    write_sharepoint_source_file,
)
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import Cell, sharepoint_map_line, sharepoint_map_records
from smartcrawl.sources.sharepoint.paths import sharepoint_crawler_folder, source_path
from smartcrawl.sources.sharepoint.source import SharepointSource

#: Reasons of a run that ended before it came to every item.
_UNFINISHED: Final = frozenset({INTERRUPTED, *ORDER_REASONS.values()})


@dataclass(slots=True)
class LibraryReport:
    """The results of a command or job at a domain, source by source."""

    domain: Domain
    action: str
    mode: str
    scope: str
    is_dry: bool = False
    #: Whether a source could not be done or is incomplete, or items failed.
    is_lacking: bool = False
    is_held: bool = False  #: whether another step is at a source
    archive: str = ""  #: id of the report of a crawl; empty: none was written
    is_stopped: bool = False  #: whether an order ended it before all was done
    sources: dict[str, LibraryResult] = field(default_factory=dict)  #: by source_id

    @property
    def is_incomplete(self) -> bool:
        """Whether not everything was done."""
        return self.is_lacking or self.is_held

    def skip(self, source: SharepointSource, why: str, *, is_held: bool = False) -> None:
        """Note a source that was left out (R3-68); the others go on."""
        found = self.sources.setdefault(source.source_id, LibraryResult(source, self.mode))
        found.reason, found.complete = why, False
        self.is_held |= is_held
        self.is_lacking |= not is_held

    @contextmanager
    def attempted(self, source: SharepointSource) -> Iterator[None]:
        """Skip a source whose step cannot be carried out."""
        try:
            yield
        except SmartcrawlError as error:
            why = paused_library_source_reason(error)
            self.skip(source, why, is_held=isinstance(error, RunHeldError | RunPausedError))

    def is_skipped(self, source: SharepointSource) -> bool:
        """Whether an earlier step left a source out."""
        found = self.sources.get(source.source_id)
        return found is not None and bool(found.reason)

    def add(self, result: LibraryResult, *, is_lacking: bool = False) -> None:
        """Note what came of a step; ``is_lacking``: whether it left out what it was to do."""
        found = self.sources.setdefault(result.source.source_id, result)
        if found is not result:
            found.add(result)
        elif result.mode != FULL:
            result.mode = self.mode
        self.is_stopped |= result.is_stopped
        self.is_lacking |= is_lacking or not result.complete
        self.is_lacking |= bool(result.failed or result.withheld)

    def add_run(self, number: int, result: RunResult, library: RunLibrary) -> None:
        """Note a run; the rest of one that was paused adds to its beginning."""
        source = library.source
        before = self.sources.pop(source.source_id, LibraryResult(source))
        integrity = library.findings.integrity
        failed = library.failed + library.shelf.refused
        trimmed = [note for note in result.notes if note.startswith(f"{TRIMMED}:")]
        found = replace(
            before,
            mode=FULL if library.findings.falls_back else self.mode,
            complete=result.complete and not failed,
            reasons=[*result.reasons, *trimmed, *library.reasons],
            runs=[*before.runs, number],
            adopted=before.adopted + library.adopted,
            requests=before.requests + library.requests,
            downloaded=before.downloaded + library.downloaded,
            added=before.added + library.added,
            changed=before.changed + library.changed,
            # Pages that an undo restored have no file, and the sweep removes them alone.
            removed=before.removed + max(library.removed, result.removed),
            withheld=result.withheld,
            failed=failed,
            listed=library.listed,
            skipped=library.skipped,
            integrity=replace(
                integrity,
                orphans=before.integrity.orphans + integrity.orphans,
                moved=before.integrity.moved + integrity.moved,
            ),
        )
        known = library.listed
        if not _UNFINISHED.isdisjoint(result.reasons):
            known = min(known, result.visits)  # the others were not compared or read
        found.unchanged = max(0, known - found.added - found.changed - failed)
        self.add(found)

    def saved(self) -> list[dict[str, Any]]:
        """Return the sources as JSON, for a job that goes on later."""
        return [found.saved() for found in self.sources.values()]

    def restore(
        self, saved: Iterable[Mapping[str, Any]], sources: Iterable[SharepointSource]
    ) -> None:
        """Begin with what ``saved`` returned before the job was paused."""
        by_id = {source.source_id: source for source in sources}
        for one in saved:
            if (source := by_id.get(one["source_id"])) is not None:
                self.sources[source.source_id] = LibraryResult.restored(source, one)

    def as_json(self) -> dict[str, Any]:
        """Return the report under the promised keys."""
        known: dict[str, Any] = {
            "domain": self.domain.domain_id,
            "action": self.action,
            "mode": self.mode,
            "scope": self.scope,
            "dryRun": self.is_dry,
            "complete": not self.is_incomplete,
            "sources": [found.as_json() for found in self.sources.values()],
        }
        if self.action == "adopt":
            for found, shown in zip(self.sources.values(), known["sources"], strict=True):
                shown["adopted"] = found.adopted
        return known | ({"report": self.archive} if self.archive else {})


def paused_library_source_reason(error: SmartcrawlError) -> str:
    """Return why a source is left out; for a paused one with the command that goes on with it."""
    if not isinstance(error, RunPausedError):
        return str(error)
    return (
        f"run {error.run} of {error.source} is paused since {error.since}; this goes on with it:"
        f" {program_name()} crawl sharepoint {program_argument('source', error.source)}"
        f" {program_argument('resume')}"
    )


_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
_ENDING: Final = ".zip"
_TRIES: Final = 100  #: at maps that change meanwhile
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME: Final = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)_(?P<domain>[A-Za-z0-9_-]{1,64})"
    r"_(?P<scope>all|files|lists|sitepages)_(?P<mode>full|incremental)(?:_(?P<number>\d+))?\.zip"
)
_ERRORS: Final = ("sharepoint_error", "processing_error", "embedding_error")


class ArchiveFile(NamedTuple):
    """An archive of a crawl."""

    path: Path
    report_id: str
    domain: str
    scope: str
    mode: str
    ended: datetime  #: UTC
    size: int  #: bytes
    number: int  #: 1, or that at the end of its name


def write_library_run_archive(
    report: LibraryReport,
    parameters: Mapping[str, Any],
    times: tuple[datetime, datetime],
    *,
    keep: int,
) -> Path:
    """Write the archive of a crawl; return its place. Its id goes into the report.

    ``times``: start and end of the crawl, UTC. ``keep``: archives of the domain that stay; 0: all.

    Raises:
        SourceError: the maps change without end.
        OSError: it cannot be written.
    """
    folder = _folder(report.domain.path.parents[2])
    folder_like_its_parent(folder)
    remove_abandoned_sharepoint_files(folder / _ENDING, "*")
    name = f"{times[1]:%Y-%m-%d_%H-%M-%S}_{report.domain.domain_id}_{report.scope}_{report.mode}"
    maps = library_run_maps_snapshot(report.domain)
    number = 1
    while True:
        path = folder / (name + (f"_{number}" if number > 1 else "") + _ENDING)
        content = _content(report, parameters, times, _id(path), maps)
        write = partial(_write, files={_CONFIG.REPORT_JSON: content, **maps}, at=times[1])
        try:
            write_sharepoint_source_file(path, write, sharepoint_file_as_new)
        except FileExistsError:
            number += 1
        else:
            break
    report.archive = _id(path)
    if keep:
        found = library_run_archives(report.domain.path.parents[2], report.domain.domain_id)
        for archive in found[keep:]:
            archive.path.unlink(missing_ok=True)
    return path


def library_run_archives(storage: Path, domain: str | None = None) -> list[ArchiveFile]:
    """Return the archives of a domain, or of all, newest first.

    Raises:
        OSError: their folder cannot be read.
    """
    found = []
    try:
        paths = list(_folder(storage).iterdir())
    except FileNotFoundError:
        return []
    for path in paths:
        named = _NAME.fullmatch(path.name)
        if named is None or domain not in (None, named["domain"]):
            continue
        try:
            ended = datetime.strptime(named["time"], "%Y-%m-%d_%H-%M-%S").replace(tzinfo=UTC)
            size = path.stat().st_size
        except (ValueError, FileNotFoundError):  # another file, or removed meanwhile
            continue
        found.append(
            ArchiveFile(
                path, _id(path), named["domain"], named["scope"], named["mode"], ended, size,
                int(named["number"] or 1),
            )
        )  # fmt: skip
    return sorted(found, key=lambda each: (each.ended, each.number, each.path), reverse=True)


def _folder(storage: Path) -> Path:
    return storage / _CONFIG.PERSISTENT_STORAGE_PATH_CRAWL_REPORTS_SUBFOLDER


def _id(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix(_ENDING)}"


def _write(file: IO[bytes], *, files: Mapping[str, bytes], at: datetime) -> None:
    """Write files into an archive; the same files and time give the same bytes."""
    with ZipFile(file, "w") as archive:
        for name, data in files.items():
            entry = ZipInfo(name, at.timetuple()[:6])
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data)


def _content(
    report: LibraryReport,
    parameters: Mapping[str, Any],
    times: tuple[datetime, datetime],
    report_id: str,
    maps: Mapping[str, bytes],
) -> bytes:
    """Return the ``report.json``."""
    started, ended = (f"{time:%Y-%m-%dT%H:%M:%S.%f}Z" for time in times)
    content = {
        "report_id": report_id,
        "type": "crawl",
        "created_utc": ended,
        "parameters": dict(parameters),
        "started_utc": started,
        "ended_utc": ended,
        "complete": not report.is_incomplete,
        "withheld": sum(found.withheld for found in report.sources.values()),
        "sources": [_source(found, maps) for found in report.sources.values()],
    }
    text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
    return text.encode("utf-8", "backslashreplace")


def _source(found: LibraryResult, maps: Mapping[str, bytes]) -> dict[str, Any]:
    source = found.source
    top = source_path(source.domain, source.source_type, source.source_id)
    names = (_CONFIG.FILE_MAP_CSV, _CONFIG.VECTOR_STORE_MAP_CSV)
    errors = _errors([maps.get(f"{top}/{name}", b"") for name in names])
    return {**found.as_json(), "runs": found.runs, "errors": errors}


def _errors(maps: Sequence[bytes]) -> list[dict[str, str]]:
    """Return the errors that maps have, a file each, by unique id."""
    found: dict[str, dict[str, str]] = {}
    for data in maps:
        for row in run_cells_of_map(data):
            errors = {name: row[name] for name in _ERRORS if row.get(name)}
            if errors:
                ids = ("sharepoint_unique_file_id", "filename", "server_relative_url")
                known = {name: row[name] for name in ids if name in row}
                file = found.setdefault(row.get(ids[0], ""), known)
                file |= errors
    return [found[unique_id] for unique_id in sorted(found)]


def library_run_maps_snapshot(domain: Domain) -> dict[str, bytes]:
    """Return the maps by their paths below the crawler's folder, sorted.

    Maps are replaced by renaming: when each path still has the file that was opened, all of them
    were there at that moment.

    Raises:
        SourceError: they change without end.
        OSError: one of them cannot be read.
    """
    root = sharepoint_crawler_folder(domain.path.parents[2])
    pattern = f"{domain.domain_id}/*/*/*{CRAWLER_HARDCODED_CONFIG.MAPS_CSV}"
    for _ in range(_TRIES):
        with ExitStack() as opened:
            files = {}
            try:
                for path in sorted(root.glob(pattern)):
                    if path.is_symlink() or not path.is_file():
                        continue
                    files[path] = opened.enter_context(open(os.open(path, _FLAGS), "rb"))
                same = all(
                    os.path.samestat(path.stat(), os.fstat(file.fileno()))
                    for path, file in files.items()
                )
            except FileNotFoundError:  # removed meanwhile
                continue
            if same:
                return {
                    path.relative_to(root).as_posix(): file.read() for path, file in files.items()
                }
    raise SourceError(f"the maps of {domain.domain_id} change all the time: try again")


def run_cells_of_map(data: bytes) -> Iterator[dict[str, str]]:
    """Yield the rows of a map by column; damaged ones are left out."""
    records = sharepoint_map_records(data)
    header = next(records, None)
    for record in records:
        if header is not None and len(record.cells) == len(header.cells):
            yield dict(zip(header.cells, record.cells, strict=True))


def spreadsheet_of_run_maps(data: bytes) -> bytes:
    r"""Return a map for a spreadsheet: no cell is a formula.

    >>> spreadsheet_of_run_maps(b"name,size\r\n=1+1,5\r\n")
    b"name,size\r\n'=1+1,5\r\n"

    Raises:
        ValueError: a row is damaged.
    """
    lines = []
    for record in sharepoint_map_records(data):
        if record.problem:
            raise ValueError(f"line {record.line}: {record.problem}")
        cells: list[Cell] = [text_for_spreadsheet(cell) for cell in record.cells]
        lines.append(sharepoint_map_line(cells))
    return b"".join(lines)

"""All maps of a domain, as they were at one moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from smartcrawl.model.exceptions import SourceError
from smartcrawl.reports.tables import text_for_spreadsheet
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.maptext import Cell, sharepoint_map_line, sharepoint_map_records
from smartcrawl.sources.sharepoint.paths import sharepoint_crawler_folder

_TRIES: Final = 100
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


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

"""The actions of ``smartcrawl library`` that are no steps: reports, cleanup and export."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from rich.markup import escape

from smartcrawl.commands.summary import summary_command_line
from smartcrawl.index.vectorstore.ports import UploadedFile
from smartcrawl.model.exceptions import PushError, SourceError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.reports.text import report_noun
from smartcrawl.run.left_uploads import RunLeftUploads
from smartcrawl.run.library.archive import (
    library_run_archives,
    library_run_maps_snapshot,
    spreadsheet_of_run_maps,
)
from smartcrawl.run.library.metadata import LibraryMetadata, run_entries_in_words
from smartcrawl.run.library.store import run_attached_file_ids
from smartcrawl.sources.private_files import folder_like_its_parent
from smartcrawl.sources.sharepoint.aside import replacing, write_sharepoint_source_file
from smartcrawl.sources.sharepoint.domains import load_sharepoint_domain
from smartcrawl.terminal.command import base_command_missing_registry
from smartcrawl.terminal.output import Output, print_complaint, printed, printed_json


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line with one of these actions."""

    words: Sequence[str]  #: behind the action
    settings: Mapping[str, Any]
    options: Options
    opts: Namespace

    @property
    def data_dir(self) -> str:
        """The folder of all state, as it was set."""
        return str(self.settings["DATA_DIR"])


def _print_reports(line: _Line) -> bool:
    """List the archives of crawls, newest first."""
    storage = line.options.sharepoint.storage
    found = library_run_archives(storage, line.words[0] if line.words else None)
    if line.opts.format == "json":
        print(
            printed_json(
                [
                    {
                        "reportId": each.report_id,
                        "domain": each.domain,
                        "scope": each.scope,
                        "mode": each.mode,
                        "ended": f"{each.ended:%Y-%m-%dT%H:%M:%SZ}",
                        "size": each.size,
                        "path": str(each.path),
                    }
                    for each in found
                ],
                sys.stdout,
            )
        )
        return True
    output = Output()
    for each in found:
        output.say(f"{each.report_id}  {each.size:,} bytes")
    if not found:
        of = f" of {line.words[0]}" if line.words else ""
        output.say(f"There is no report{of}; to write one: {program_name()} library crawl DOMAIN")
    return True


def _clean_up(line: _Line) -> bool:
    """Remove the entries of files that the vector store or the maps lack."""
    if line.opts.files:
        return _clean_up_uploads(line)
    domain = load_sharepoint_domain(line.options.sharepoint.storage, line.words[0])
    database = registry_database(line.options.registry)
    with database.translated("write"), closing(database.open()) as connection:
        metadata = LibraryMetadata(domain, connection, datetime.now(UTC))
        try:
            found = metadata.cleanup(
                lambda: run_attached_file_ids(domain, line.options.store_server)
            )
        except PushError as error:
            raise SourceError(f"{error}; nothing was removed") from error
    for each in found.lines:
        print_complaint("library", each)
    if line.opts.format == "json":
        counts = {"removed": found.removed, "remaining": found.remaining}
        print(printed_json({"domain": domain.domain_id, "action": "cleanup", **counts}, sys.stdout))
        return True
    removed = run_entries_in_words(found.removed)
    Output().say(f"{removed} removed, {found.remaining:,} remaining")
    return True


def _clean_up_uploads(line: _Line) -> bool:
    """List the uploads that no vector store has any more; with ``--yes`` delete them."""
    server = line.options.store_server
    database = registry_database(line.options.registry)
    if not database.exists():
        raise base_command_missing_registry(database)
    with database.translated("write"), closing(database.open()) as connection:
        try:
            uploads = RunLeftUploads(connection, server)
            found = uploads.found()
        except PushError as error:
            raise SourceError(f"{error}; nothing was deleted") from error
        if line.opts.yes:
            uploads.delete(found)
    for id_, why in found.refused:
        print_complaint("library", f"{id_} is not deleted: {why}")
    if line.opts.format == "json":
        files = [
            {"file": file.id, "name": file.name, "size": file.size, "createdAt": _when(file)}
            for file in found.files
        ]
        counts = {"listed": len(files), "deleted": found.deleted, "refused": len(found.refused)}
        print(printed_json({"action": "cleanup", **counts, "files": files}, sys.stdout))
        return not found.refused
    output = Output()
    for file in found.files:
        output.say(escape(f"{file.id}  {_when(file)}  {file.size:,} bytes  {file.name}"))
    which = report_noun(len(found.files), "upload")
    verb = "is" if len(found.files) == 1 else "are"
    output.say(escape(f"{which} {verb} in no vector store of {server.destination}"))
    if line.opts.yes:
        output.say(f"{found.deleted:,} deleted")
    elif found.files:
        command = summary_command_line("library", line.data_dir, "cleanup --files --yes")
        output.say("Deleted for good with:", command=command)
    if found.elsewhere:
        elsewhere = report_noun(found.elsewhere, "upload")
        output.say(f"{elsewhere} at other servers: set VECTOR_STORE_URL to one of them")
    return not found.refused


def _when(file: UploadedFile) -> str:
    return f"{datetime.fromtimestamp(file.created_at, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _export(line: _Line) -> bool:
    """Write the maps of a domain so that a spreadsheet takes no cell for a formula."""
    domain = load_sharepoint_domain(line.options.sharepoint.storage, line.words[0])
    if not line.opts.spreadsheet:
        raise SourceError(
            f"no place to write to; give a folder: {program_name()} library export "
            f"{line.words[0]} --spreadsheet FOLDER"
        )
    place = Path(line.opts.spreadsheet)
    if place.resolve().is_relative_to(line.options.sharepoint.storage.resolve()):
        raise SourceError(
            f"{place} is in {line.options.sharepoint.storage}, whose maps are read back; "
            "give another folder"
        )
    written = []
    for name, data in library_run_maps_snapshot(domain).items():
        try:
            content = spreadsheet_of_run_maps(data)
        except ValueError as error:
            raise SourceError(
                f"{name} is damaged, {error}: download {domain.domain_id}, which writes it again"
            ) from error
        path = place / name
        folder_like_its_parent(path.parent)
        write_sharepoint_source_file(path, partial(_write, data=content), replacing)
        written.append(os.fspath(path))
    if line.opts.format == "json":
        facts: dict[str, Any] = {"domain": domain.domain_id, "action": "export", "files": written}
        print(printed_json(facts, sys.stdout))
        return True
    output = Output()
    for each in written:
        output.say(each)
    if not written:
        output.say(f"{domain.domain_id} has no map: download it first.")
    return True


def _write(file: IO[bytes], *, data: bytes) -> None:
    file.write(data)


#: Each with the fewest and the most words behind its name.
OTHERS: Final[Mapping[str, tuple[Callable[[_Line], bool], int, int]]] = {
    "cleanup": (_clean_up, 0, 1),
    "export": (_export, 1, 1),
    "reports": (_print_reports, 0, 1),
}


def carry_out_library_command(
    args: Sequence[str], settings: Mapping[str, Any], opts: Namespace
) -> bool:
    """Carry out an action of this module; return whether all of it could be done.

    Raises:
        SmartcrawlError: it cannot be carried out, or standard output takes no more.
    """
    action, *words = args
    line = _Line(words, settings, Options.of(settings), opts)
    try:
        with printed():
            return OTHERS[action][0](line)
    except OSError as error:
        place = error.filename or "the storage"
        raise SourceError(f"{place} cannot be used: {error.strerror or error}") from error

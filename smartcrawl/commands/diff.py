"""``smartcrawl diff``: the difference of two versions of a page, out of their snapshots."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from smartcrawl.model.exceptions import RegistryError, UsageError
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import escaped_text
from smartcrawl.model.setting_values import given_number
from smartcrawl.model.urls import normalize_url, url_digest
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.removal.purge import KnownRecord, known_record_rows, known_request_url
from smartcrawl.reports.diff_text import (
    diff_as_html,
    diff_as_unified,
    diff_head,
    diff_hunk_head,
    diff_limits,
    diff_part_text,
)
from smartcrawl.reports.versions import VersionDiffs
from smartcrawl.terminal.command import RegistryCommand, print_json
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output
from smartcrawl.terminal.sources import address_argument

_COLOURS: Final = {"-": "red", "+": "green", " ": ""}


class Command(RegistryCommand):
    """Print what changed in the text of a page."""

    takes_words: ClassVar = True
    formats: ClassVar = ("unified", "json", "html")

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] URL | PATH [RUN [RUN]]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Show what changed in the text of a page, by lines and words: what its last change"
            " replaced; with RUN what changed since that run, with two what changed between them."
            " Former texts are read out of snapshots, which are kept for SNAPSHOT_RETENTION_DAYS"
            " after the page changed. Exit status: 0 done, 1 not carried out."
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the difference."""
        if not 1 <= len(args) <= 3:
            raise UsageError(
                "expected one URL and at most two runs, such as:"
                f" {program_name()} {self.name} https://docs.example.com/page 12"
            )
        before, after = [*map(_run, args[1:]), None, None][:2]
        if before is not None and after is not None and before > after:
            raise UsageError(f"run {before} comes after run {after}: name the earlier one first")
        page = self._page(connection, sources, args[0])
        declared = load_stored_jobs_and_sources(self.options, connection)
        diff = VersionDiffs(connection, self.options, declared).diff(page.no, before, after)
        match opts.format:
            case "json":
                print_json(diff)
            case "html":
                for line in diff_as_html(diff):
                    print(line)
            case _:
                _print_unified(diff)

    def _page(self, connection: Connection, sources: Sequence[str], word: str) -> KnownRecord:
        """Return the record of an address; of several sources the first that stores it.

        Raises:
            RegistryError: no record has it, or several sources store it.
        """
        trackers = self.options.trackers
        url = address_argument(word, connection, self.options)
        requested = known_request_url(connection, url, trackers) or url
        found = known_record_rows(
            connection, url_digest(normalize_url(requested, trackers)), requested
        )
        pages = [page for page in found if not sources or page.source in sources]
        stored = [page for page in pages if page.held] or pages
        if not stored:
            raise RegistryError(f"{requested} is not known; to see why: {self.again('why', word)}")
        if len(stored) > 1:
            names = ", ".join(page.source for page in stored)
            raise RegistryError(
                f"{requested} is in several sources ({names}): name one by --source"
            )
        return stored[0]


def _run(text: str) -> int:
    number = given_number(text)
    if number is None or number < 1:
        raise UsageError(f"{escaped_text(text)!r} is not the number of a run")
    return number


def _print_unified(diff: dict[str, Any]) -> None:
    """Print a difference for people: with colours on a terminal, as a unified diff in a pipe."""
    output = Output()
    if output.width is None:
        for line in diff_as_unified(diff):
            print(line)
        if not diff["hunks"]:
            print(f"{diff['url']} {diff_head(diff)}", file=sys.stderr)
        for sentence in diff_limits(diff):
            print(sentence, file=sys.stderr)
        return
    output.say(f"[bold]{escape(diff['url'])}[/] {escape(diff_head(diff))}")
    for hunk in diff["hunks"]:
        output.line(f"[cyan]{escape(escaped_text(diff_hunk_head(hunk)))}[/]")
        for line in hunk["lines"]:
            output.line(_coloured(line))
    for sentence in diff_limits(diff):
        output.say(escape(sentence))


def _coloured(line: dict[str, Any]) -> str:
    colour = _COLOURS[line["sign"]]
    whole = all(part["changed"] for part in line["parts"])
    parts = "".join(
        f"[reverse]{text}[/]" if part["changed"] and not whole else text
        for part in line["parts"]
        for text in (escape(diff_part_text(part["text"])),)
    )
    text = f"{line['sign']}{parts}"
    return f"[{colour}]{text}[/]" if colour else text

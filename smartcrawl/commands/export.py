"""``smartcrawl export``: stored pages as Markdown files, JSON lines or llms.txt."""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any, ClassVar, Final

from smartcrawl.model.exceptions import UsageError
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.export import (
    REST,
    ExportedPage,
    ExportedPages,
    address_section,
    export_folder_of_addresses,
    exported_chunks,
    exported_file_name,
    exported_listing_head,
    exported_listing_page,
    exported_listing_section,
    exported_markdown,
    exported_page_row,
    exported_text_of_page,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.terminal.command import RegistryCommand
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, printed_json
from smartcrawl.terminal.whole_places import WholeFolder, whole_output_file, whole_output_folder

_STANDARD_OUTPUT: Final = "-"
_MOST_SECTIONS: Final = 40  #: of llms.txt; later ones go to the last
_OTHERS: Final = "Other pages"
_SPOOLED: Final = 65_536  #: bytes of a section in memory

Report = Callable[[int], None]  #: takes the number of pages written so far


class Command(RegistryCommand):
    """Write the stored pages of a source to files."""

    formats: ClassVar = ("markdown", "jsonl", "llms")

    def syntax(self) -> str:
        """Return its usage."""
        return "--source NAME --output PLACE [options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Write the stored pages of a source from the registry, without any request: "
            "as a folder with a Markdown file for each page, as JSON lines, or as "
            "llms.txt with llms-full.txt. The export appears whole or not at all."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--output",
            metavar="PLACE",
            help="the folder to write; for jsonl the file, or - for standard output",
        )
        parser.add_argument(
            "--chunks", action="store_true", help="with jsonl: one chunk a line, not one page"
        )
        parser.add_argument(
            "--lost",
            action="store_true",
            help="include lost pages, whose last visit returned an error about the page "
            "(other failures do not make a page lost)",
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Check the options, then do the work."""
        example = f"such as: {program_name()} {self.name} --source NAME --output PLACE"
        if not opts.source:
            raise UsageError(f"give a source, {example}")
        if not opts.output:
            raise UsageError(f"give a place to write to, {example}")
        if opts.format != "jsonl" and opts.chunks:
            raise UsageError("--chunks needs --format jsonl")
        if opts.format != "jsonl" and opts.output == _STANDARD_OUTPUT:
            raise UsageError(
                f"{opts.format} writes a folder, so give its name; --format jsonl can "
                "write to standard output",
            )
        super().run(args, opts)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Write the pages, and print how many."""
        pages = ExportedPages(connection, sources, lost=opts.lost)
        counts = pages.counts()
        total = counts.pages if opts.lost else counts.pages - counts.lost
        with self.meter(total) as meter:
            counted = _Counted(pages, lambda number: meter.report("written", number))
            match opts.format:
                case "markdown":
                    with whole_output_folder(opts.output) as folder:
                        _write_markdown(folder, counted)
                case "llms":
                    with whole_output_folder(opts.output) as folder:
                        common = export_folder_of_addresses(pages.addresses())
                        _write_llms(folder, counted, sources[0], common)
                case _:
                    with _lines(opts.output) as file:
                        self._write_lines(file, counted, opts)
        standard = opts.output == _STANDARD_OUTPUT
        what = f"{report_noun(counted.number, 'page')} of {', '.join(sources)} written"
        where = "" if standard else f" to {opts.output}"
        left = counts.lost if not opts.lost else 0
        more = (
            f"; {report_noun(left, 'lost page')} left out; to include them: --lost" if left else ""
        )
        Output(sys.stderr if standard else sys.stdout).say(escape(f"{what}{where}{more}"))

    def _write_lines(self, file: IO[str], pages: Iterable[ExportedPage], opts: Namespace) -> None:
        for page in pages:
            rows: Iterable[dict[str, Any]] = (
                exported_chunks(page, self.options.chunks)
                if opts.chunks
                else (exported_page_row(page),)
            )
            for row in rows:
                file.write(printed_json(row, file) + "\n")


class _Counted:
    """Pages that are counted as they are taken."""

    def __init__(self, pages: Iterable[ExportedPage], report: Report) -> None:
        self._pages = pages
        self._report = report
        self.number = 0

    def __iter__(self) -> Iterator[ExportedPage]:
        for page in self._pages:
            yield page
            self.number += 1
            self._report(self.number)


@contextmanager
def _lines(output: str) -> Iterator[IO[str]]:
    if output == _STANDARD_OUTPUT:
        yield sys.stdout
        return
    with whole_output_file(output) as file:
        yield file


def _write_markdown(folder: WholeFolder, pages: Iterable[ExportedPage]) -> None:
    """Write a file for each page."""
    for page in pages:
        text = exported_markdown(page)
        try:
            _write(folder, exported_file_name(page.url), text)
        except FileExistsError:
            _write(folder, exported_file_name(page.url, told_apart=True), text)


def _write(folder: WholeFolder, name: str, text: str) -> None:
    with folder.file(name) as file:
        file.write(text)


def _write_llms(
    folder: WholeFolder, pages: Iterable[ExportedPage], source: str, common: str
) -> None:
    """Write llms.txt and llms-full.txt.

    The lines of each section wait in a file of their own until all pages are read.
    """
    head = exported_listing_head(source, f"The pages of {source}")
    with ExitStack() as stack:
        full = stack.enter_context(folder.file("llms-full.txt"))
        sections: dict[str, IO[str]] = {}
        for number, page in enumerate(pages):
            if number == 0:
                document = page.document
                head = exported_listing_head(
                    document.title or source, document.description or source
                )
            name = address_section(page.url, common)
            if name not in sections and len(sections) >= _MOST_SECTIONS:
                name = _OTHERS
            if name not in sections:
                sections[name] = stack.enter_context(
                    tempfile.SpooledTemporaryFile(
                        max_size=_SPOOLED,
                        mode="w+",
                        encoding="utf-8",
                        newline="",
                        dir=str(folder.path),
                    )
                )
            sections[name].write(exported_listing_page(page))
            full.write("\n---\n\n" if number else "")
            full.write(exported_text_of_page(page))
        with folder.file("llms.txt") as file:
            file.write(head)
            for name in sorted(sections, key=lambda one: (one != REST, one == _OTHERS)):
                file.write(exported_listing_section(name))
                sections[name].seek(0)
                shutil.copyfileobj(sections[name], file)

"""``smartcrawl search``: search the index that the registry writes."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import ClassVar

from smartcrawl.index.facets import FACETS, Facets, facets_as_data
from smartcrawl.index.images import ImageDocument, images_of_hits
from smartcrawl.index.queries import parsed_search_query
from smartcrawl.index.query_vectors import SearchMode
from smartcrawl.index.search import search_hit_as_data, search_index
from smartcrawl.index.searching import MOST_PROPOSED, AnswerForm, HitChunk
from smartcrawl.model.exceptions import UsageError
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import escaped_text
from smartcrawl.model.setting_values import given_number
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.names import stored_source_names
from smartcrawl.terminal.command import RegistryCommand, print_json
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output

_SHOWN = 5  #: images of a page in a table
#: Marks around found words. They cannot occur in extracted text.
_OPEN, _CLOSE = "\x02", "\x03"


class Command(RegistryCommand):
    """Search the crawled pages."""

    takes_words: ClassVar = True

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] QUERY"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Search the crawled pages, best first. Pages with few of the words come behind "
            'those with most of them. "Two words" in quotes must occur together; -word or '
            '-"two words" must '
            "not occur; site:HOST, site:HOST/PATH, site:file:///FOLDER, in:SOURCE, language:LL, "
            "type:pdf, after:2026-05 and before:2026-05-31 limit the search; -site:, -in:, "
            "-language: and -type: leave pages out. Quote the whole query for the shell."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--limit", type=_limit, default=10, metavar="N", help="at most N pages (default: 10)"
        )
        parser.add_argument(
            "--offset",
            type=_offset,
            default=0,
            metavar="N",
            help="leave out the first N pages (default: 0)",
        )
        parser.add_argument(
            "--language",
            type=_language,
            metavar="LL",
            help="only pages in this language, such as en (ISO 639-1)",
        )
        parser.add_argument(
            "--mode",
            choices=[SearchMode.TEXT.value, SearchMode.VECTOR.value, SearchMode.HYBRID.value],
            default=SearchMode.BEST.value,
            help="text: words; vector: meaning; hybrid: both (default: hybrid once every chunk has"
            " had a vector, else text)",
        )
        parser.add_argument(
            "--sort",
            choices=["relevance", "date"],
            default="relevance",
            help="relevance: the best pages first; date: the latest (default: relevance)",
        )
        parser.add_argument(
            "--prefix",
            action="store_true",
            help="the last word may be the beginning of one, as in searches while typing",
        )
        parser.add_argument(
            "--chunks",
            action="store_true",
            help="show up to three parts of each page, with the headings above them",
        )
        parser.add_argument(
            "--images",
            "--nest-images",
            dest="images",
            action="store_true",
            help="show the images of each page below it, first those with words of the query",
        )
        parser.add_argument(
            "--facets",
            action="store_true",
            help="count all pages that are found, by source, language, type and date",
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the hits."""
        query = " ".join(args)
        if not query.strip():
            raise UsageError(f"nothing to search for; try: {program_name()} search 'two words'")
        known = stored_source_names(connection)
        marks = ("<em>", "</em>") if opts.format == "json" else (_OPEN, _CLOSE)
        found = search_index(
            connection,
            query,
            self.options,
            sources=sources,
            limit=opts.limit,
            offset=opts.offset,
            marks=marks,
            language=opts.language or "",
            mode=SearchMode(opts.mode),
            form=AnswerForm(opts.facets, opts.sort == "date", opts.prefix),
        )
        hits = found.hits
        if found.note:
            print(f"note: {escaped_text(found.note)}", file=sys.stderr)
        if found.meant:
            shown = " Its pages are shown." if hits else ""
            print(f"did you mean {escaped_text(found.meant)!r}?{shown}", file=sys.stderr)
        images = {}
        if opts.images:
            asked = found.meant or query
            images = images_of_hits(connection, (hit.no for hit in hits), asked)
        if opts.format == "json":
            listed = [search_hit_as_data(hit, images.get(hit.no)) for hit in hits]
            counted = None if found.facets is None else facets_as_data(found.facets)
            print_json(listed if counted is None else {"hits": listed, "facets": counted})
            return
        several = len(known) > 1
        output = Output()
        for number, hit in enumerate(hits, opts.offset + 1):
            lost = " [red](its last visit failed)[/]" if hit.lost else ""
            output.line(f"[bold]{number}. {_safe(hit.title or hit.url)}[/]{lost}")
            where = f"  [dim]{_safe(', '.join(hit.sources))}[/]" if several else ""
            first = next(iter(hit.chunks), None)
            page = "" if first is None or first.page is None else f"  page {first.page}"
            link = hit.url if first is None else first.link(hit.url)
            output.line(f"   [green]{_safe(link)}[/]{page}{where}")
            if opts.chunks and hit.chunks:
                _show_chunks(output, hit.chunks)
            elif hit.snippet:
                output.say(_marked(hit.snippet), label="   ", indent=3)
            _show_images(output, images.get(hit.no, []))
        if found.facets is not None:
            _show_facets(output, found.facets)
        if not hits:
            print(f"nothing found for {query!r}{_wordless(query)}", file=sys.stderr)


def _limit(value: str) -> int:
    limit = given_number(value)
    if limit is None or not 1 <= limit <= 1000:
        raise ArgumentTypeError(f"{value!r} is not a whole number from 1 to 1000")
    return limit


def _offset(value: str) -> int:
    offset = given_number(value)
    if offset is None or offset > MOST_PROPOSED:
        raise ArgumentTypeError(f"{value!r} is not a whole number from 0 to {MOST_PROPOSED:,}")
    return offset


def _language(value: str) -> str:
    if not re.fullmatch("[A-Za-z]{2}", value):
        raise ArgumentTypeError(f"{value!r} is not a two-letter language code, such as en")
    return value.lower()


def _wordless(query: str) -> str:
    """Return why nothing can be found for a query without a word to search for."""
    if parsed_search_query(query).terms:
        return ""
    if any(map(str.isalnum, query)):
        why = "it only limits the search; add words"
    else:
        why = "it has no letters or digits; give words"
    return f": {why}, such as: {program_name()} search 'two words'"


def _safe(text: str) -> str:
    """Escape text of a page, so that it cannot control the terminal (ATT-20)."""
    return escape(escaped_text(text))


def _marked(snippet: str) -> str:
    parts = re.split(f"([{_OPEN}{_CLOSE}])", snippet)
    marks = {_OPEN: "[bold yellow]", _CLOSE: "[/]"}
    return "".join(marks.get(part) or _safe(part) for part in parts)


def _show_chunks(output: Output, chunks: Sequence[HitChunk]) -> None:
    for chunk in chunks:
        path = f"  {_safe(chunk.path)}" if chunk.path else ""
        where = f", #{_safe(chunk.section)}" if chunk.section else ""
        where = where if chunk.page is None else f", page {chunk.page}"
        output.line(f"   [dim]chunk {chunk.number}{where}{path}[/]")
        if chunk.highlight:
            output.say(_marked(chunk.highlight), label="     ", indent=5)


def _show_facets(output: Output, facets: Facets) -> None:
    total = f"{facets.total:,}{'' if facets.complete else '+'}"
    output.line(f"[bold]{total} page{'' if total == '1' else 's'}[/]")
    for name in FACETS:
        if counts := getattr(facets, name):
            shown = ", ".join(f"{one.value} {one.pages:,}" for one in counts)
            output.say(_safe(shown), label=f"  {name:<8}  ", indent=12)


def _show_images(output: Output, images: list[ImageDocument]) -> None:
    for image in sorted(images, key=lambda image: not image.matched)[:_SHOWN]:
        words = image.alt or image.title or (image.context if image.matched else "")
        shown = f"[bold yellow]{_safe(words)}[/]" if image.matched else _safe(words)
        output.line(f"   [cyan]{_safe(image.src)}[/]{f'  {shown}' if words else ''}")
    if len(images) > _SHOWN:
        more = len(images) - _SHOWN
        output.line(f"   and {more} more image{'' if more == 1 else 's'}")

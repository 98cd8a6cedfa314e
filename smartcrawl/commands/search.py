"""``scrapy search``: ask the embedded index."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import ClassVar

import apsw
from rich.console import Console
from rich.markup import escape
from scrapy.exceptions import UsageError

from smartcrawl.cli import RegistryCommand, print_json
from smartcrawl.logs import escaped
from smartcrawl.registry.reports import iso
from smartcrawl.sinks.sqlite import Hit, search

_OPEN, _CLOSE = "\x02", "\x03"  # cannot occur in extracted text


class Command(RegistryCommand):
    """Search what was crawled."""

    takes_words: ClassVar = True

    def syntax(self) -> str:
        """Return how it is called."""
        return "[options] QUERY"

    def short_desc(self) -> str:
        """Return one line for the list of commands."""
        return "Search the pages that were crawled"

    def long_desc(self) -> str:
        """Return what its help says."""
        return (
            "Search the pages that were crawled, best first. Parts of a page that have all the"
            ' words count; where there is none, any of them. "Quoted words" stay together.'
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--limit", type=_limit, default=10, metavar="N", help="at most N pages (default: 10)"
        )

    def work(
        self, connection: apsw.Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the hits."""
        query = " ".join(args)
        if not query.strip():
            raise UsageError("say what to search for, such as: scrapy search 'two words'")
        if opts.format == "json":
            hits = search(
                connection, query, sources=sources, limit=opts.limit, marks=("<em>", "</em>")
            )
            print_json([_as_json(hit) for hit in hits])
            return
        hits = search(connection, query, sources=sources, limit=opts.limit, marks=(_OPEN, _CLOSE))
        console = Console(highlight=False, soft_wrap=True)
        for number, hit in enumerate(hits, 1):
            lost = " [red](lost: its last visit failed)[/]" if hit.lost else ""
            console.print(f"[bold]{number}. {_safe(hit.title or hit.url)}[/]{lost}")
            console.print(f"   [green]{_safe(hit.url)}[/]")
            if hit.snippet:
                console.print(f"   {_marked(hit.snippet)}")
        if not hits:
            print(f"nothing found for {query!r}", file=sys.stderr)


def _limit(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= 1000:
        raise ArgumentTypeError(f"{value!r} is no whole number from 1 to 1000")
    return int(value)


def _safe(text: str) -> str:
    """Return text of a page as a terminal may show it: nothing in it gives orders (ATT-20)."""
    return escape(escaped(text))


def _marked(snippet: str) -> str:
    parts = re.split(f"([{_OPEN}{_CLOSE}])", snippet)
    marks = {_OPEN: "[bold yellow]", _CLOSE: "[/]"}
    return "".join(marks.get(part) or _safe(part) for part in parts)


def _as_json(hit: Hit) -> dict[str, object]:
    return {
        "url": hit.url,
        "source": hit.source,
        "title": hit.title,
        "headings": hit.headings,
        "snippet": hit.snippet,
        "score": hit.score,
        "language": hit.language,
        "description": hit.description,
        "lost": hit.lost,
        "lastChecked": iso(hit.last_checked),
        "lastChanged": iso(hit.last_changed),
    }

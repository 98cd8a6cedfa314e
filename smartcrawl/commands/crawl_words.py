"""The words of ``smartcrawl crawl``, and the arguments of the spider that they stand for."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Sequence
from typing import Final

from smartcrawl.terminal.command import count_argument

#: Options that stand for an argument of the spider; each with what follows it, and its meaning.
_ARGUMENTS: Final = (
    ("--sitemap", "URL", "read a sitemap or feed, too, or only that"),
    ("--max-pages", "N", "stop after N pages"),
    ("--lost-threshold", "N", "remove what N runs in a row found gone"),
    ("--job", "NAME", "join the run of all workers with that name"),
)
_SWITCHES: Final = (
    ("--force", "ask for every page without validators"),
    ("--resume", "go on with an interrupted run"),
)
_SPIDER: Final = "site"
_ADDRESS: Final = re.compile(r"[/.:]|\Alocalhost\Z")


class CrawlWords:
    """The command ``crawl`` as ``smartcrawl`` takes it: an address or a source comes first."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] [URL | SOURCE]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Crawl one address, one source of sources.toml, or all of them (neither). The first"
            " crawl of a site reads every page; each later one refreshes it, and downloads only"
            " what changed. Exit status: 0 complete, 3 incomplete, 4 another run is open or the"
            " last one is paused, 1 not carried out."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        parser.add_argument("--source", metavar="NAME", help="crawl this source of sources.toml")
        for option, metavar, meaning in _ARGUMENTS:
            parser.add_argument(
                option,
                metavar=metavar,
                help=meaning,
                type=count_argument if metavar == "N" else str,
            )
        for option, meaning in _SWITCHES:
            parser.add_argument(option, action="store_true", help=meaning)
        parser.add_argument(
            "-a", dest="spargs", action="append", default=[], metavar="NAME=VALUE",
            help="an argument of the spider, as often as needed",
        )  # fmt: skip
        parser.add_argument(
            "--progress", choices=("line", "json", "none"),
            help="json: one object for each page; none: no progress (default: line)",
        )  # fmt: skip
        parser.add_argument("-L", "--loglevel", metavar="LEVEL", help="how much is logged")
        parser.add_argument("--logfile", metavar="FILE", help="log to FILE")
        parser.add_argument("--nolog", action="store_true", help="log nothing")


def scrapy_crawl_words(
    opts: Namespace, words: Sequence[str], declared: Collection[str]
) -> list[str]:
    """Return the words of ``scrapy crawl`` for those of ``smartcrawl crawl``.

    ``declared``: names of the sources in sources.toml.
    """
    arguments = [f"{_kind(word, declared)}={word}" for word in words]
    for option in ("--source", *(option for option, *_ in _ARGUMENTS)):
        value = getattr(opts, _name(option))
        if value is not None:
            arguments.append(f"{_name(option)}={value}")
    arguments += [f"{_name(option)}=1" for option, _ in _SWITCHES if getattr(opts, _name(option))]
    found = [_SPIDER]
    for argument in (*arguments, *opts.spargs):
        found += ["-a", argument]
    for setting in opts.set:
        found += ["-s", setting]
    for option in ("--data-dir", "--progress", "--loglevel", "--logfile"):
        value = getattr(opts, _name(option))
        if value is not None:
            found += [option, value]
    return [*found, "--nolog"] if opts.nolog else found


def _name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _kind(word: str, declared: Collection[str]) -> str:
    """Return the argument that a word stands for: ``source`` or ``url``.

    What is neither declared nor like an address is taken for the name of a source, so that the
    message about it lists the declared ones.
    """
    if word in declared:
        return "source"
    return "url" if _ADDRESS.search(word) else "source"

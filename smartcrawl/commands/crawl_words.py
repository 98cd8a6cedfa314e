"""The words of ``smartcrawl crawl``, and the arguments of the spider that they stand for."""

from __future__ import annotations

import os
import re
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from smartcrawl.model.choice_arguments import CHOICE_ARGUMENTS, ChoiceArgument
from smartcrawl.model.program import OURS
from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.settings_table import SETTINGS
from smartcrawl.rules.extent import EXTENTS
from smartcrawl.sources.kinds import FILES, GITHUB, SITE, SPIDERS
from smartcrawl.terminal.command import count_argument

#: Options that stand for an argument of the spider; each with what follows it, and its meaning.
_ARGUMENTS: Final = (
    ("--sitemap", "URL", "read a sitemap or feed as well, or alone"),
    ("--scope", "PART", f"crawl {', '.join(EXTENTS[:-1])} or {EXTENTS[-1]} of the address"),
    ("--max-pages", "N", "stop after N pages"),
    ("--lost-threshold", "N", "remove pages that N runs in a row found gone"),
    ("--allow-private", "NAME", "let the seed on host NAME lead into private networks"),
    ("--job", "NAME", "join the run of all workers with that name"),
)
_SWITCHES: Final = (
    ("--force", "download every page again, even if unchanged"),
    ("--resume", "continue an interrupted run"),
    ("--yes", "let stored pages get out of scope"),
)
#: What ``--dry-run`` and ``--save`` do; Scrapy's command has the options, too.
DRY_HELP: Final = "ask robots.txt and the address, say what a crawl would have, store nothing"
SAVE_HELP: Final = "declare the source as NAME in smartcrawl.toml, with all that was chosen"
JOBS_HELP: Final = "crawl up to N sources at once (default: one a core, at most 4)"
FORMATS: Final = ("table", "json")  #: of what came of the sources
FORMAT_HELP: Final = "json: what came of each source, for programs (default: table)"
_ADDRESS: Final = re.compile(r"[/.:]|\Alocalhost\Z")
_PATH: Final = re.compile(r"file:|[/~]|\.\.?(?:/|\Z)", re.IGNORECASE)
#: The start of an address of the web: a scheme, or a host with a dot or a port.
_HOST: Final = re.compile(r"[^/]*[.:]|localhost(?:/|\Z)")
#: A repository of GitHub, or a place in it. Its wiki alone, and its issues, are pages of the web.
_REPOSITORY: Final = re.compile(
    r"https://github\.com/(?!(?:about|apps|collections|features|login|marketplace|orgs|search"
    r"|settings|sponsors|topics)/)[^/?#]+/[^/?#]+(?:/(?:tree|blob)/[^?#]*)?/?"
).fullmatch


class CrawlWords:
    """The command ``crawl`` of ``smartcrawl``: an address, a folder or a source comes first."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] [URL | FOLDER | SOURCE]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Crawl one address, one folder or one source of sources.toml; without any of "
            "these, crawl all sources. An address like https://github.com/OWNER/REPO is "
            "a repository. The first crawl reads every page or file; each later one "
            "reads only what changed. Write a folder whose name has a dot with its path, "
            "as in ./docs.old. Exit status: 0 complete, 3 incomplete, 4 another run is "
            "open or the last one is paused, 1 not carried out."
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
        for option, choice in _choices():
            parser.add_argument(
                option,
                metavar=choice.metavar,
                help=choice.meaning,
                action="append" if choice.repeats else "store",
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
        parser.add_argument("--jobs", type=count_argument, metavar="N", help=JOBS_HELP)
        parser.add_argument("--format", choices=FORMATS, help=FORMAT_HELP)
        parser.add_argument("--save", metavar="NAME", help=SAVE_HELP)
        parser.add_argument("--dry-run", action="store_true", help=DRY_HELP)
        parser.add_argument("-L", "--loglevel", metavar="LEVEL", help="how much is logged")
        parser.add_argument("--logfile", metavar="FILE", help="log to FILE")
        parser.add_argument("--nolog", action="store_true", help="log nothing")


def command_line_of_scrapy_crawl(
    opts: Namespace,
    words: Sequence[str],
    declared: Mapping[str, str],
    *,
    spider: str | None = None,
) -> list[str]:
    """Return the words of ``scrapy crawl`` for those of ``smartcrawl crawl``.

    ``declared``: the spiders of the sources in sources.toml, by name. ``spider``: as given; None:
    that of the start.
    """
    arguments = [f"{crawl_command_argument(word, declared)}={word}" for word in words]
    for option in ("--source", *(option for option, *_ in _ARGUMENTS)):
        value = getattr(opts, _name(option))
        if value is not None:
            arguments.append(f"{_name(option)}={value}")
    for option, choice in _choices():
        value = getattr(opts, _name(option))
        if value is not None:
            text = "\n".join(value) if choice.repeats else value
            arguments.append(f"{_name(option)}={text}")
    arguments += [f"{_name(option)}=1" for option, _ in _SWITCHES if getattr(opts, _name(option))]
    arguments += opts.spargs
    found = _spiders(arguments, declared) if spider is None else [spider]
    for argument in arguments:
        found += ["-a", argument]
    for setting in opts.set:
        found += ["-s", setting]
    for option in (
        "--data-dir", "--progress", "--jobs", "--format", "--save", "--loglevel", "--logfile"
    ):  # fmt: skip
        value = getattr(opts, _name(option))
        if value is not None:
            found += [option, str(value)]
    found += ["--dry-run"] if opts.dry_run else []
    return [*found, "--nolog"] if opts.nolog else found


def option_elsewhere(option: str) -> str | None:
    """Return which key of a source, or which setting, does what an unknown option asks for.

    >>> option_elsewhere("--keep-selectors")
    'there is no option --keep-selectors: write the key keep_selectors into the table of a source'
    >>> option_elsewhere("--download-timeout")
    'there is no option --download-timeout: give the setting with -s DOWNLOAD_TIMEOUT=…'
    """
    from smartcrawl.sources.declared import source_keys  # noqa: PLC0415  # only a wrong option needs them

    name = option.strip("-").replace("-", "_").lower()
    found = [f"write the key {name} into the table of a source"] if name in source_keys() else []
    upper = name.upper()
    named = [upper] if upper in SETTINGS else [one for one in SETTINGS if one.endswith(f"_{upper}")]
    if name and len(named) == 1:
        found.append(f"give the setting with -s {named[0]}=…")
    return f"there is no option {option}: {', or '.join(found)}" if found else None


def _choices() -> list[tuple[str, ChoiceArgument]]:
    """Return the options that choose keys of a source."""
    return [(f"--{name.replace('_', '-')}", each) for name, each in CHOICE_ARGUMENTS.items()]


def _name(option: str) -> str:
    return option.removeprefix("--").replace("-", "_")


def _spiders(arguments: Sequence[str], declared: Mapping[str, str]) -> list[str]:
    """Return the names of the spiders that the arguments are for.

    Without a start, those of the kinds that are declared.
    """
    given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    if "root" in given:
        return [FILES.spider]
    if "source" in given:
        return [declared.get(given["source"], SITE.spider)]
    if _REPOSITORY(given.get("url", "")) and "sitemap" not in given:
        return [GITHUB.spider]
    if given.keys() & {"url", "sitemap"}:
        return [SITE.spider]
    return [spider for spider in SPIDERS if spider in declared.values()] or [SITE.spider]


def crawl_command_argument(word: str, declared: Collection[str] = ()) -> str:
    """Return the argument that a word stands for: ``source``, ``root`` or ``url``.

    A declared source comes first, then a path, then a host, then a folder that exists. What is
    none of them is taken for the name of a source, so that the message about it lists the declared
    ones.
    """
    if word in declared:
        return "source"
    if _PATH.match(word) or _is_in_store(word) or (not _HOST.match(word) and os.path.isdir(word)):
        return "root"
    return "url" if _ADDRESS.search(word) else "source"


def file_refusal(word: str) -> str | None:
    """Return how to crawl a single file of this machine, where a word is the path of one."""
    if not os.path.isfile(word):
        return None
    folder, name = os.path.split(word)
    line = f"{OURS} crawl {shlex.quote(folder or '.')} --include {shlex.quote(name)}"
    return f"{redacted_line(word)} is a file: crawl its folder, and of that this file alone: {line}"


def _is_in_store(word: str) -> bool:
    """Whether a word is a place in a store that has a scheme of its own."""
    scheme, separator, _ = word.lower().partition("://")
    if not separator or scheme in ("http", "https"):
        return False
    from smartcrawl.sources.files import STORE_SCHEMES  # noqa: PLC0415  # most words need none

    return scheme in STORE_SCHEMES


def command_line_of_crawl(word: str) -> tuple[str, str, str]:
    """Return the words of ``scrapy crawl`` that crawl an address or a folder.

    >>> command_line_of_crawl("https://a.example/"), command_line_of_crawl("./docs")
    (('site', '-a', 'url=https://a.example/'), ('files', '-a', 'root=./docs'))
    """
    name = crawl_command_argument(word)
    return (FILES.spider if name == "root" else SITE.spider, "-a", f"{name}={word}")

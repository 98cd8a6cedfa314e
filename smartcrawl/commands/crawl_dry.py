"""``crawl URL --dry-run``: what a crawl of an address would have, after one look at its page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from contextlib import closing
from tempfile import TemporaryDirectory
from typing import Any, Final

from scrapy.settings import BaseSettings

from smartcrawl.extract.robots_txt import robots_txt_sitemaps
from smartcrawl.model.choice_arguments import CHOICE_ARGUMENTS
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.program import program_argument, program_crawl_line, program_name
from smartcrawl.model.redaction import redacted_text
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.looks import LookedPage, looked_page_rows, looked_robots_row
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.extent import Extent
from smartcrawl.run.run import Run
from smartcrawl.run.site_starts import site_part_words
from smartcrawl.sources.site import SiteSource
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output

#: Settings of a look: it has state of its own, and asks for nothing but robots.txt and the page.
_LOOK: Final[Mapping[str, Any]] = {
    "REGISTRY_URL": "",
    "REDIS_URL": "",
    "ELASTICSEARCH_URL": "",
    "EMBEDDER": "",
    "VECTOR_STORE_ID": "",
    "SNAPSHOT_STORE": "off",
    "SITEMAPS_FROM_ROBOTS": False,
    "LLMS_TXT": False,
    "SOFT_404_DETECTION": False,
    "PROGRESS_FORMAT": "none",
}
#: Arguments that a look takes: those that say how a page is asked.
_TAKEN: Final = ("url", "delay", "header", "user_agent", "allow_private")
_GIVEN: Final = ("url", "scope", *CHOICE_ARGUMENTS, "sitemap", "max_pages", "allow_private")


class DryCrawl:
    """A look at one address, with state in a folder that is deleted afterwards."""

    def __init__(self, source: SiteSource, arguments: Mapping[str, str]) -> None:
        """``source``: as a crawl with these arguments would take it."""
        self._source = source
        self._given = arguments
        self._folder = TemporaryDirectory(prefix="smartcrawl-")

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of the run that looks."""
        taken = {name: self._given[name] for name in _TAKEN if name in self._given}
        return {**taken, "scope": Extent.PAGES}

    def apply(self, settings: BaseSettings) -> None:
        """Set the settings of the look."""
        for name, value in {**_LOOK, "DATA_DIR": self._folder.name}.items():
            settings.set(name, value, priority="cmdline")

    def close(self) -> None:
        """Delete the folder."""
        self._folder.cleanup()

    def print_report(self, run: Run) -> None:
        """Print what the look found."""
        output = Output()
        database = run.registry.database
        with database.translated("read"), closing(database.connect(readonly=True)) as connection:
            pages = looked_page_rows(connection)
            output.say(f"{escape(redacted_text(self._given['url']))}: nothing is stored")
            self._print_robots(output, connection, pages)
            for page in pages:
                output.say(_page_words(page), label="  ")
        if pages and pages[-1].links is not None:
            self._print_part(output, run, pages)
        line = [program_crawl_line(shlex.quote(redacted_text(self._given["url"])))]
        line += [
            program_argument(name, shlex.quote(self._given[name]))
            for name in _GIVEN[1:]
            if name in self._given
        ]
        output.say("To crawl it:", command=" ".join(line))

    def _print_robots(
        self, output: Output, connection: Connection, pages: list[LookedPage]
    ) -> None:
        """Print the status of robots.txt, and how many sitemaps it names."""
        found = looked_robots_row(connection)
        if found is None:
            output.say("  robots.txt: no answer")
            return
        named = robots_txt_sitemaps(found.body, found.origin) if found.status < 400 else []
        maps = "no sitemap" if not named else report_noun(len(named), "sitemap")
        output.say(f"  {escape(found.origin)}/robots.txt: status {found.status}, names {maps}")

    def _print_part(self, output: Output, run: Run, pages: list[LookedPage]) -> None:
        """Print which part of its host a crawl would have, and how many links lead into it."""
        last, source = pages[-1], self._source
        links = list(dict.fromkeys(last.links or ()))
        if source.is_open:
            inside = [link for link in links if run.seeds.scope.holds(link)]
            ways = [*source.seeds, *(page.url for page in pages[:-1])]
            source = source.decided(last.url, inside, ways, lists=last.is_sitemap)
        followed = sum(map(source.scope.allows, links))
        output.say(
            f"It would be the source {escape(source.name)}: {escape(site_part_words(source))}."
            f" {followed:,} of the {report_noun(len(links), 'link')} of the page lead into it"
        )


def dry_source(source: object) -> SiteSource:
    """Return the source of a dry run.

    Raises:
        SourceError: it is no site that an address began.
    """
    if isinstance(source, SiteSource):
        return source
    raise SourceError(
        "--dry-run looks at one address of the web: give it. What the next run of a known source"
        f" would do: {program_name()} plan"
    )


def _page_words(page: LookedPage) -> str:
    """Return what came of one address, in words."""
    words = [] if page.status is None else [f"status {page.status}"]
    if page.target is not None:
        words.append(f"redirects to {redacted_text(page.target)}")
    elif page.error:
        words.append(page.error)
    if page.links is not None and page.target is None:
        words.append(report_noun(len(page.links), "link"))
    return escape(f"{redacted_text(page.url)}: {', '.join(words) or 'no answer'}")

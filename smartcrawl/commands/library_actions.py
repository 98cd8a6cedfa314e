"""The actions of ``scrapy library``: each is a row of steps, and a step has all its sources."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from smartcrawl.commands.library_embed import embed_command_has_store, embed_command_sources
from smartcrawl.commands.library_order import DOWNLOAD, LibraryOrder
from smartcrawl.model.exceptions import RunHeldError, SmartcrawlError
from smartcrawl.run.library_report import LibraryReport
from smartcrawl.run.library_steps import LibraryStep, StepResult, library_run_has_items
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.source import SharepointSource
from smartcrawl.terminal.output import print_complaint

logger = logging.getLogger(__name__)

ADOPT: Final = "adopt"
CRAWL: Final = "crawl"
EMBED: Final = "embed"
#: The steps of each action, in order.
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    DOWNLOAD: (DOWNLOAD,),
    "process": ("process",),
    EMBED: (EMBED,),
    "check": ("check",),
    CRAWL: (DOWNLOAD, "process", EMBED),
    ADOPT: (DOWNLOAD,),
}


def command_steps_of_order(order: LibraryOrder) -> tuple[str, ...]:
    """Return the steps of an order.

    A crawl embeds where a vector store is configured for its domain. A line says if it does not.
    """
    steps = ACTIONS[order.action]
    if order.action != CRAWL or embed_command_has_store(order.domain):
        return steps
    print_complaint(
        "library",
        "embed is left out of the crawl: no vector store is configured for it; OPENAI_API_KEY is"
        " the key of one",
    )
    return tuple(step for step in steps if step != EMBED)


def carry_out_command_step(step: str, order: LibraryOrder, report: LibraryReport) -> None:
    """Carry out a step that needs no crawl, at each source; those that fail are skipped."""
    _STEPS[step](order, report)


def _at_each_source(step: Callable[[LibraryStep], StepResult]) -> _Step:
    def carry_out(order: LibraryOrder, report: LibraryReport) -> None:
        for source in order.sources:
            if order.is_ending():
                report.is_stopped = True
                return
            if report.is_skipped(source):
                continue
            given = LibraryStep(
                source, order.options, is_dry=order.is_dry, is_ending=order.is_ending
            )
            try:
                result = step(given)
            except RunHeldError as error:
                report.skip(source, str(error), is_held=True)
            except SmartcrawlError as error:
                report.skip(source, str(error))
            else:
                for reason in result.reasons:
                    logger.warning("%s: %s", source.name, reason)
                report.add_step(source, result)

    return carry_out


_Step = Callable[[LibraryOrder, LibraryReport], None]
#: Steps that need no crawl.
_STEPS: Final[Mapping[str, _Step]] = {
    "process": _at_each_source(LibraryStep.process),
    EMBED: embed_command_sources,
    "check": _at_each_source(LibraryStep.check),
}


def skip_sources_not_to_adopt(order: LibraryOrder, report: LibraryReport) -> list[SharepointSource]:
    """Return the sources with a map and without stored items; the others are skipped."""
    found = []
    for source in order.sources:
        map_ = source.folder / CRAWLER_HARDCODED_CONFIG.FILE_MAP_CSV
        if library_run_has_items(source, order.options):
            report.skip(source, "the registry has its items already: download it")
        elif not map_.is_file():
            report.skip(source, f"{map_} is missing: put the files and the map of it there first")
        else:
            found.append(source)
    return found

"""Which of the sources that ``due`` crawls have something due: found without opening a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from scrapy.settings import BaseSettings

from smartcrawl.commands.spider_runs import SpiderRun
from smartcrawl.engine.own_spiders import is_own_class
from smartcrawl.engine.source_settings import options_with_source_keys
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.source_due import note_still_fresh_rows, stored_source_facts
from smartcrawl.reports.text import report_noun, report_time_span
from smartcrawl.rules.source_due import source_due_at
from smartcrawl.run.configuration import run_configuration
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.spiders.base import VisitSpider


class NotDue(NamedTuple):
    """A source of which nothing is due."""

    source: str
    due_at: int | None  #: Unix seconds; None: nothing of it ever is


def leave_out_not_due(
    settings: BaseSettings, runs: Sequence[SpiderRun], now: int
) -> tuple[list[SpiderRun], list[NotDue]]:
    """Return the runs that have something due, and the sources of the others.

    The others are noted as fresh (``source.fresh_at``). A source that cannot be judged, such as one
    with a mistake, is due: its run says what is wrong. ``now``: Unix seconds.
    """
    options = Options.of(settings)
    database = registry_database(options.registry)
    if not database.exists():
        return list(runs), []
    due: list[SpiderRun] = []
    rest: list[NotDue] = []
    with database.translated("read"), closing(database.reports()) as connection:
        choice = _Choice(settings, connection, now)
        for run in runs:
            found = choice.not_due(run)
            if found is None:
                due.append(run)
            else:
                rest.append(found)
    if rest:
        with (
            database.translated("write"),
            closing(database.open()) as connection,
            transaction(connection),
        ):
            note_still_fresh_rows(connection, [one.source for one in rest], now)
    return due, rest


def not_due_line(rest: Sequence[NotDue], known: int, now: int) -> str:
    """Return one line about the sources of which nothing is due; ``known``: all sources.

    >>> not_due_line([NotDue("a", 7_300), NotDue("b", None)], 2, 100)
    'nothing is due: 2 sources; the first page is due in 2 h (a)'
    >>> not_due_line([NotDue("a", None)], 3, 100)
    'nothing is due of 1 of 3 sources'
    """
    if len(rest) < known:
        return f"nothing is due of {len(rest):,} of {known:,} sources"
    text = f"nothing is due: {report_noun(known, 'source')}"
    times = [(one.due_at, one.source) for one in rest if one.due_at is not None]
    if not times:
        return text
    at, source = min(times)
    return f"{text}; the first page is due in {report_time_span(at - now)} ({source})"


class _Choice:
    """Decides for one source after another whether something of it is due."""

    def __init__(self, settings: BaseSettings, connection: Connection, now: int) -> None:
        self._settings = settings
        self._connection = connection
        self._now = now
        self._declared = load_declared_sources(*Options.of(settings).source_files)
        self._options: dict[type[VisitSpider], Options] = {}

    def not_due(self, run: SpiderRun) -> NotDue | None:
        """Return the source of a run, if nothing of it is due; else None."""
        if is_own_class(run.spider):
            return None  # its code may ask what no registry knows of
        try:
            source, options = self._orders(run)
        except SmartcrawlError:
            return None
        facts = stored_source_facts(
            self._connection,
            source.name,
            self._now,
            configuration=run_configuration(source, options),
            is_listed=source.traits.is_listed,
        )
        if facts is None:
            return None
        schedule = options.schedule
        due_at = source_due_at(facts, schedule.spread(schedule.base, 0))
        is_due = due_at is not None and due_at <= self._now
        return None if is_due else NotDue(source.name, due_at)

    def _orders(self, run: SpiderRun) -> tuple[Source, Options]:
        """Return the source and the options that a run would have; tables are read once."""
        if (options := self._options.get(run.spider)) is None:
            settings = self._settings.copy()
            run.spider.update_settings(settings)
            options = self._options[run.spider] = Options.of(settings)
        source: Source | None = None
        if run.arguments.keys() == {"source"}:
            source = self._declared.get(run.arguments["source"])
        if source is None:
            source = run.spider.source_of(options, run.arguments)  # type: ignore[attr-defined]  # of each spider of ours
        if source.request.given:
            settings = self._settings.copy()
            run.spider.update_settings(settings)
            options = options_with_source_keys(settings, source, options)
        return source, options

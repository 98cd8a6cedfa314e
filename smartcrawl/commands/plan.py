"""``smartcrawl plan``: the requests, skips and removals of the next run, without a request."""

from __future__ import annotations

import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any, Final

from smartcrawl.extract.robots_txt import robots_txt_check
from smartcrawl.model.exceptions import RegistryError, SmartcrawlError, UsageError
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.program import program_crawl_line, program_name
from smartcrawl.model.setting_values import given_number
from smartcrawl.model.settings_table import setting_value
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources, stored_jobs_of_sources
from smartcrawl.reports.freshness import freshness_percent
from smartcrawl.reports.simulation import (
    DAY,
    Simulation,
    simulation_report,
    simulation_report_data,
    simulation_report_hours,
    simulation_report_percent,
    simulation_report_picture,
)
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.freshness import BudgetReplay, Freshness
from smartcrawl.rules.schedule import Schedule
from smartcrawl.run.plan import plan_reports
from smartcrawl.sources.base import Source
from smartcrawl.sources.listing.entries import Listing
from smartcrawl.sources.site import source_freshness
from smartcrawl.terminal.command import RegistryCommand, count_argument, print_json
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output
from smartcrawl.terminal.sources import print_wrong_tables
from smartcrawl.terminal.tables import (
    print_table,
    printed_number_column,
    printed_whole_column,
    printed_word_column,
)

_MOST_DAYS: Final = 3_650
_COLUMNS = (
    printed_word_column("setting"),
    printed_number_column("requests"),
    printed_number_column("saved"),
    printed_number_column("staleness"),
    printed_number_column("95 % within"),
    printed_number_column("waiting"),
    printed_whole_column("with"),
)


def add_simulate_command_options(parser: ArgumentParser) -> None:
    """Add the options of a simulation."""
    parser.add_argument(
        "--simulate",
        type=_days,
        metavar="DAYS",
        help="instead of the plan, replay the last DAYS days under other settings",
    )
    parser.add_argument(
        "--svg", type=Path, metavar="FILE", help="with --simulate: draw the result into FILE"
    )


def _days(value: str) -> int:
    days = given_number(value)
    if days is None or not 1 <= days <= _MOST_DAYS:
        raise ArgumentTypeError(f"{value!r} is not a whole number of days from 1 to {_MOST_DAYS}")
    return days


def print_simulate_command(
    connection: Connection,
    sources: Mapping[str, int],
    schedule: Schedule,
    *,
    days: int,
    now: int,
    svg: Path | None,
    as_json: bool,
    declared: Mapping[str, Source],
) -> None:
    """Replay the history of each source (name and number) and print the results.

    ``declared``: the sources of today, some of which have a budget.

    Raises:
        SmartcrawlError: no source can be replayed, or the picture cannot be drawn or written.
    """
    if not sources:
        raise RegistryError("no sources yet: declare one in sources.toml, or crawl a URL")
    if svg is not None and len(sources) > 1:
        raise SmartcrawlError(
            f"a picture shows one source, but there are {len(sources)}: choose one with --source"
        )
    found = [
        simulation_report(
            connection,
            name,
            number,
            schedule,
            since=now - days * DAY,
            now=now,
            freshness=source_freshness(declared.get(name)),
        )
        for name, number in sources.items()
    ]
    if all(one.missing for one in found):
        raise RegistryError("\n".join(f"{one.source}: {one.note}" for one in found))
    if svg is not None:
        _write(svg, simulation_report_picture(found[0]))
    if as_json:
        print_json([simulation_report_data(one) for one in found])
        return
    for one in found:
        _print_simulation(one)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SmartcrawlError(
            f"cannot write {path} ({error.strerror}): give --svg a file in a folder that this user"
            " may write to"
        ) from error


def _print_simulation(found: Simulation) -> None:
    output = Output()
    if found.missing:
        output.say(escape(f"{found.source}: {found.note}"))
        return
    pages, changes = found.whole.pages, found.whole.changes
    output.say(
        escape(
            f"{found.source}, {iso_time(found.since)} to {iso_time(found.until)}:"
            f" {report_noun(pages, 'page')},"
            f" {report_noun(changes, 'change')},"
            f" {report_noun(found.whole_runs, 'complete run')}; a run in"
            f" {simulation_report_hours(found.pace)}"
        )
    )
    if found.note:
        output.say(escape(found.note))
    print_table(
        _COLUMNS,
        (
            dict(
                zip(
                    (column.key for column in _COLUMNS),
                    (
                        setting.name,
                        f"{result.requests:,}",
                        simulation_report_percent(found.share(result)),
                        simulation_report_hours(result.staleness),
                        simulation_report_hours(result.late),
                        f"{result.waiting:,}",
                        setting.option and f"-s {setting.option}",
                    ),
                    strict=True,
                )
            )
            for setting, result in found.settings
        ),
    )
    if found.budget is not None and found.freshness is not None:
        output.say(escape(_budget_line(found.budget, found.freshness)))


def _budget_line(budget: BudgetReplay, freshness: Freshness) -> str:
    """Return what the budget would have brought, and what its target takes."""
    cost = budget.census.cost_of(1 - freshness.share)
    target = (
        f"{freshness_percent(freshness.share)} within {simulation_report_hours(freshness.within)}"
    )
    takes = "no budget reaches it at this pace of runs"
    if cost is not None:
        takes = f"it takes about {ceil(cost.requests):,} requests a day"
    return (
        f"budget: {freshness.budget:,} requests a day, which keep"
        f" {freshness_percent(1 - budget.stale)} within"
        f" {simulation_report_hours(freshness.within)}; the target is {target}: {takes}"
    )


_BEFORE = " " * 12  #: columns of a label
_SOURCES = "SELECT name, no FROM source ORDER BY name"


class Command(RegistryCommand):
    """Print the plan of the next run."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Show which pages the next run of each source would request, skip and "
            "remove, if every page and robots.txt were as last time: that run is "
            "rehearsed on a copy of its records, and the copy is dropped. Nothing is "
            "requested, and the registry is not changed. Folders and other sources of "
            "files are listed, but no file is read. Libraries are not listed; to preview "
            f"one: {program_name()} library download DOMAIN --dry-run. --simulate shows "
            "what other revisit settings would have saved in the past, and how late they "
            "would have noticed changes. Exit status: 0 done, 1 not carried out."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--limit",
            type=count_argument,
            default=20,
            metavar="N",
            help="list at most N pages of each kind (default: 20)",
        )
        add_simulate_command_options(parser)

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the plans, or the simulations."""
        if opts.svg is not None and opts.simulate is None:
            raise UsageError("--svg needs a simulation to draw: add --simulate DAYS")
        settings = self.settings
        declared = load_stored_jobs_and_sources(self.options, connection)
        known: Any = dict(connection.execute(_SOURCES).fetchall())
        names = sources or sorted({*known, *declared, *declared.wrong})
        print_wrong_tables(self.name, declared, sources)
        if opts.simulate is not None:
            print_simulate_command(
                connection,
                {name: known.get(name, 0) for name in names},
                self.options.schedule,
                days=opts.simulate,
                now=int(time.time()),
                svg=opts.svg,
                as_json=opts.format == "json",
                declared=declared,
            )
            return
        robots = RobotsOfSources(
            connection,
            robots_txt_check,
            RobotsOptions.of(settings),
            obeyed=setting_value(settings, "ROBOTSTXT_OBEY"),
            jobs=stored_jobs_of_sources(connection, declared),
            sources=declared,
        )
        numbers = {name: known.get(name, 0) for name in names}
        with self.meter() as meter:
            found = plan_reports(
                connection,
                numbers,
                declared,
                self.options,
                robots,
                limit=opts.limit,
                listing=self._listing,
                progress=meter.report,
            )
        if opts.format == "json":
            print_json(found)
            return
        for plan in found:
            _print_plan(plan)
        if not found:
            print(
                "No sources yet. Declare one in sources.toml, or crawl an address: "
                f"{program_crawl_line('https://…')}"
            )

    def _listing(self, source: Source) -> Listing:
        from scrapy.settings import Settings  # noqa: PLC0415  # other plans need no Scrapy

        from smartcrawl.engine.listing import listing_of_scrapy_settings  # noqa: PLC0415

        assert self.settings is not None
        settings = Settings()  # those of the command may have no getbool()
        settings.setdict(dict(self.settings), priority="project")
        return listing_of_scrapy_settings(source, self.options, settings, time.time_ns())


def _print_plan(plan: dict[str, Any]) -> None:
    output = Output()
    output.say(f"[bold]{escape(plan['source'])}[/]: {plan['known']:,} known")
    if plan["note"]:
        output.say(f"[yellow]{escape(plan['note'])}[/]", label="  ")
    if plan["asks"] is not None:
        _print_next_run(output, plan)
    for name, key in (("withheld", "withheld"), ("kept", "heldByFailedLook")):
        part = plan[key]
        if part["count"]:
            why = "" if key == "withheld" else ", because the check before removal failed"
            _say(output, name, f"{part['count']:,}{why}")
            _list(output, [row["url"] for row in part["shown"]], part["count"])


def _print_next_run(output: Output, plan: dict[str, Any]) -> None:
    if plan["isListed"]:
        _print_reads(output, plan)
    else:
        _print_requests(output, plan)
    total = sum(plan["skips"].values())
    _say(output, "skips", _with_reasons(f"{total:,}", plan["skips"]))
    _list(output, [f"{row['url']}: {row['why']}" for row in plan["skipped"]], total)
    guard = plan["guard"]
    removes = f"{guard['removals']:,} of {guard['pages']:,}"
    _say(output, "removes", _with_reasons(removes, plan["removes"]))
    rows = [f"{row['url']}: {row['rule']}, {row['when']}" for row in plan["removed"]]
    _list(output, rows, guard["removals"])
    them = "it" if guard["removals"] == 1 else "them"
    renamed = ""
    if plan["isListed"] and plan["newAddresses"] and plan["removes"].get("absent"):
        output.say(
            "a new file with the same bytes counts as renamed: its page moves and is not removed",
            label=_BEFORE,
        )
        renamed = ", except for renamed files"
    if guard["withholds"]:
        output.say(
            f"[yellow]the guard would withhold {them} for approval{renamed}[/]", label=_BEFORE
        )


def _print_requests(output: Output, plan: dict[str, Any]) -> None:
    number = plan["newAddresses"]
    new = f", and {number:,} new {'address' if number == 1 else 'addresses'}" if number else ""
    _say(output, "requests", f"{plan['asks']:,}, {plan['conditional']:,} with validators{new}")
    for reason, number in plan["unconditional"].items():
        _say(output, "", f"{number:,} without: {reason}")
    rows = [f"{_way(row)}{row['url']}" for row in plan["asked"]]
    _list(output, rows, plan["asks"])


def _print_reads(output: Output, plan: dict[str, Any]) -> None:
    number = plan["newAddresses"]
    reasons = {**plan["unconditional"], **({"new": number} if number else {})}
    total = plan["asks"] + number
    _say(output, "reads", _with_reasons(f"{total:,}", reasons))
    _list(output, [f"{row['url']}: {row['why']}" for row in plan["asked"]], total)


def _say(output: Output, label: str, text: str) -> None:
    output.say(escape(text), label=f"  {label:<10}", indent=len(_BEFORE))


def _way(row: dict[str, Any]) -> str:
    return "if changed  " if row["conditional"] else "whole       "


def _with_reasons(total: str, counts: dict[str, int]) -> str:
    if len(counts) == 1:
        return f"{total} ({next(iter(counts))})"
    listed = ", ".join(f"{number:,} {reason}" for reason, number in counts.items())
    return f"{total}: {listed}" if listed else total


def _list(output: Output, rows: list[str], total: int) -> None:
    for row in rows:
        output.say(escape(row), label=_BEFORE, indent=len(_BEFORE) + 2)
    if total > len(rows) > 0:
        output.say(f"and {total - len(rows):,} more (--limit)", label=_BEFORE)

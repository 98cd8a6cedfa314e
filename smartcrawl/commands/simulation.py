"""``smartcrawl plan --simulate``: savings and staleness that other settings would have had."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.markup import escape

from smartcrawl.model.exceptions import RegistryError, SmartcrawlError
from smartcrawl.model.given_numbers import given_number
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.simulation import (
    DAY,
    Simulation,
    simulation_report,
    simulation_report_data,
    simulation_report_hours,
    simulation_report_percent,
    simulation_report_picture,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.schedule import Schedule
from smartcrawl.terminal.command import print_json
from smartcrawl.terminal.output import Output
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
) -> None:
    """Replay the history of each source (name and number) and print the results.

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
        simulation_report(connection, name, number, schedule, since=now - days * DAY, now=now)
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
        _print(one)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SmartcrawlError(
            f"cannot write {path} ({error.strerror}): give --svg a file in a folder that this user"
            " may write to"
        ) from error


def _print(found: Simulation) -> None:
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

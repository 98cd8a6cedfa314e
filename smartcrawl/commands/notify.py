"""``smartcrawl notify``: list notices, test targets, and send again what was given up."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import closing
from secrets import token_hex
from typing import Any, Final

from smartcrawl.model.exceptions import SettingError, SmartcrawlError, meant_word
from smartcrawl.model.notify_targets import NotifyTarget
from smartcrawl.model.options import Options
from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.settings_file import SETTINGS_FILE
from smartcrawl.model.times import iso_time
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.notices import (
    StoredNotice,
    closed_notice_targets,
    listed_notice_rows,
    lost_notice_targets,
    retry_notice_rows,
)
from smartcrawl.rules.notices import Event
from smartcrawl.run.notices import Delivery, deliver_notices, notice_guard, notice_letter
from smartcrawl.sources.notice_senders import NoticeError, send_notice
from smartcrawl.terminal import tables
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.command import DONE, FAILED, base_command_missing_registry, print_json
from smartcrawl.terminal.output import print_complaint, print_note, printed

_MOST: Final = 100  #: notices that are listed
_RETRY_SECONDS: Final = 60.0  #: for which ``--retry`` sends
_TIMES: Final = ("at", "endedAt", "nextAt", "closedAt")
_COLUMNS: Final = (
    tables.printed_word_column("at"),
    tables.printed_name_column("target"),
    tables.printed_word_column("event"),
    tables.printed_name_column("source"),
    tables.printed_word_column("state"),
    tables.printed_word_column("attempts"),
    tables.printed_name_column("error"),
)


class Command(BaseCommand):
    """List notices, test targets, or send again what was given up."""

    takes_words = True

    def syntax(self) -> str:
        """Return its usage."""
        return "[TARGET …] [options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "List the last notices to the targets of [notify.NAME] in smartcrawl.toml, newest "
            "first, and which targets take none any more. --test sends one to each target at "
            "once; --retry sends again what was given up, and opens targets that answered 410. "
            "TARGET: only these. Exit status: 0 done, 1 a target did not take a notice, or not "
            "carried out."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        actions = parser.add_mutually_exclusive_group()
        actions.add_argument("--test", action="store_true", help="send a test to each target")
        actions.add_argument("--list", action="store_true", help="list notices (the default)")
        actions.add_argument(
            "--retry", action="store_true", help="send again what was given up, and what waits"
        )
        parser.add_argument(
            "--format", choices=("table", "json"), default="table", help="default: table"
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Do what the options say; print errors as messages."""
        try:
            options = Options.of(self.settings)
            targets = _chosen(options, args)
            with printed():
                if opts.test:
                    self.exitcode = _test(options, targets, opts)
                elif opts.retry:
                    self.exitcode = _retry(options, targets)
                else:
                    _list(options, args, opts)
        except SmartcrawlError as error:
            print_complaint(self.name, str(error))
            self.exitcode = FAILED


def _chosen(options: Options, names: Sequence[str]) -> list[NotifyTarget]:
    """Return the targets of these names, of all where none is named.

    Raises:
        SettingError: there is no target, or none of a name.
    """
    known = {target.name: target for target in options.notify}
    if not known:
        raise SettingError(
            f"there is no target of notices: add a table [notify.NAME] to {SETTINGS_FILE}, as"
            " docs/alarms.md shows"
        )
    for name in names:
        if name not in known:
            hint = meant_word(name, known) or f"; known are {', '.join(known)}"
            raise SettingError(f"there is no target {redacted_line(name)!r}{hint}")
    return [known[name] for name in dict.fromkeys(names)] or list(known.values())


def _test(options: Options, targets: Sequence[NotifyTarget], opts: Namespace) -> int:
    """Send a test to each target, beside what waits; return the exit status."""
    now, guard, failed = int(time.time()), notice_guard(options), False
    found = []
    for target in targets:
        id_ = f"msg_{token_hex(16)}"
        notice = StoredNotice(0, id_, Event.TEST, "", None, {"target": target.name}, now, 0)
        error: str | None = None
        try:
            send_notice(target, notice_letter(notice, now), guard)
        except NoticeError as why:
            error, failed = str(why), True
        found.append({"target": target.name, "kind": target.kind, "error": error})
        if opts.format != "json":
            print(f"{target.name}: {'taken' if error is None else f'not taken: {error}'}")
    if opts.format == "json":
        print_json(found)
    return FAILED if failed else DONE


def _retry(options: Options, targets: Sequence[NotifyTarget]) -> int:
    """Send again what was given up; return the exit status."""
    database = registry_database(options.registry)
    if not database.exists():
        raise base_command_missing_registry(database)
    with database.translated("write"), closing(database.open()) as connection:
        with transaction(connection):
            names = [target.name for target in targets]
            again = retry_notice_rows(connection, names, int(time.time()))
        known = [target.name for target in options.notify]
        delivery = Delivery(connection, targets, notice_guard(options), known=known)
        taken = delivery.deliver(_RETRY_SECONDS)
    print(f"{taken:,} sent; {again:,} of all that waited had been given up")
    for name, error in delivery.failed.items():
        print_complaint("notify", f"{name}: {error}")
    return FAILED if delivery.failed else DONE


def _list(options: Options, names: Sequence[str], opts: Namespace) -> None:
    database = registry_database(options.registry)
    if not database.exists():
        raise base_command_missing_registry(database)
    deliver_notices(options)
    with database.translated("read"), closing(database.reports()) as connection:
        rows = listed_notice_rows(connection, names, _MOST)
        closed = closed_notice_targets(connection)
        lost = lost_notice_targets(connection, [target.name for target in options.notify])
    rows = [row | {key: iso_time(row[key]) for key in _TIMES} for row in rows]
    if opts.format == "json":
        print_json(rows)
        return
    tables.print_table(_COLUMNS, [_shown(row) for row in rows], empty="no notices yet")
    for name, reason in closed.items():
        print_note(f"{name} is closed: {reason}")
    for name in lost:
        print_note(
            f"{name} has no table [notify.{name}] any more: what waits for it is given up 24 hours"
            " after it was written"
        )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {key: "-" if value in (None, "") else value for key, value in row.items()}

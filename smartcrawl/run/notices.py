"""Notices: written in the transaction of their cause, and delivered to each target in order."""

from __future__ import annotations

import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from secrets import token_hex
from typing import Any, Final

from smartcrawl.model.exceptions import SmartcrawlError, SourceError
from smartcrawl.model.notify_targets import NotifyTarget
from smartcrawl.model.options import Options
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import display_url
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import Database, registry_database
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.notices import (
    StoredNotice,
    claim_notice_target_row,
    close_notice_target_row,
    end_lost_notices,
    end_notice_row,
    fail_notice_row,
    first_notice_row,
    note_recovered_source_row,
    note_stale_source_row,
    release_notice_target_row,
    stale_source_rows,
    waiting_notice_targets,
    write_notice_row,
)
from smartcrawl.registry.removal.tombstones import failed_start_sources
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.reports.alarms import seen_source_times, source_limits
from smartcrawl.reports.changes import ReportedRun, reported_changes
from smartcrawl.reports.today import vanished_sources
from smartcrawl.rules.alarms import Condition, is_source_stale, source_age
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.model import RunState
from smartcrawl.rules.notices import Event, change_digests
from smartcrawl.rules.run_orders import ORDER_REASONS
from smartcrawl.rules.seal import only_not_due
from smartcrawl.rules.visibility import Visibility
from smartcrawl.run.notice_texts import notice_body, notice_text, notice_title
from smartcrawl.sources.notice_senders import (
    SECONDS,
    Letter,
    NoticeError,
    TargetClosedError,
    send_notice,
)

logger = logging.getLogger(__name__)

COMMAND_SECONDS: Final = 10.0  #: for which a command delivers before it ends
_RUN: Final = """
SELECT s.name, s.visibility, r.state, r.complete, r.reasons, r.withheld,
       coalesce((SELECT b.withheld FROM run b WHERE b.source = r.source AND b.no < r.no
                  ORDER BY b.no DESC LIMIT 1), 0)
  FROM run r JOIN source s ON s.no = r.source WHERE r.no = ?
"""
#: Keys of a change that a digest has of a page.
_PAGE_KEYS: Final = ("kind", "url", "title", "formerUrl", "share", "wordsAdded", "wordsRemoved")
_BY_ORDER: Final = frozenset(ORDER_REASONS.values())


class RunNotices:
    """Writes the notices of a run that has ended; called in the transaction that ends it."""

    def __init__(self, targets: Sequence[NotifyTarget]) -> None:
        self._targets = targets

    def __call__(self, connection: Connection, run: int, now: int) -> None:
        """Write the notices of a run (run.no) to each target; ``now``: Unix seconds."""
        row: Any = connection.execute(_RUN, (run,)).fetchone()
        name, visibility, state, complete, reasons, waiting, before = row
        source, why = str(name), [redacted_text(reason) for reason in json.loads(reasons)]
        write = _Writer(connection, self._targets, source, Visibility(visibility), now=now, run=run)
        saw_all = bool(complete) or only_not_due(why)
        if not saw_all and not _BY_ORDER & set(why):
            write(Event.RUN_INCOMPLETE, {"run": run, "reasons": why})
        if RunState(state) is not RunState.SWEPT:
            return
        if waiting > before:
            write(Event.REMOVAL_WAITING, {"run": run, "waiting": waiting})
        if saw_all and note_recovered_source_row(connection, source):
            write(Event.SOURCE_RECOVERED, {"run": run})
        write.changes()


class _Writer:
    """Writes notices about one source to the targets that want them."""

    def __init__(
        self,
        connection: Connection,
        targets: Sequence[NotifyTarget],
        source: str,
        visibility: Visibility,
        *,
        now: int,
        run: int | None = None,
    ) -> None:
        self._connection = connection
        self._targets = targets
        self._source = source
        self._visibility = visibility
        self._now = now
        self._run = run

    def __call__(self, event: Event, data: Mapping[str, Any]) -> None:
        """Write a notice to each target that wants it."""
        for target in self._wanting(event):
            self._write(target, event, data)

    def changes(self) -> None:
        """Write the digest of the run to each target, with the pages that it wants."""
        assert self._run is not None, "a digest is of a run"
        targets = self._wanting(Event.CHANGES)
        runs = [ReportedRun(self._run, self._source)]
        changes = (change for _, change in reported_changes(self._connection, runs))
        digests = change_digests(changes, [target.wish for target in targets])
        for target, digest in zip(targets, digests, strict=True):
            if digest is not None:
                pages = [_page(page) for page in digest.pages]
                data = {"counts": digest.counts, "pages": pages, "more": digest.more}
                self._write(target, Event.CHANGES, {"run": self._run, **data})

    def _wanting(self, event: Event) -> list[NotifyTarget]:
        about = (self._source, self._visibility)
        return [target for target in self._targets if target.wish.wants(event, *about)]

    def _write(self, target: NotifyTarget, event: Event, data: Mapping[str, Any]) -> None:
        write_notice_row(
            self._connection,
            target.name,
            event,
            self._now,
            data=data,
            source=self._source,
            run=self._run,
        )


def _page(change: Mapping[str, Any]) -> dict[str, Any]:
    page = {key: change[key] for key in _PAGE_KEYS}
    for key in ("url", "formerUrl"):
        if page[key] is not None:
            page[key] = redacted_text(display_url(page[key]))
    return page


# Sources that grow stale


def note_stale_sources(options: Options, database: Database, now: int) -> None:
    """Write a notice for each source that is stale since the last look, or is not any more.

    The process that looks first writes it. Without targets nothing is read. ``now``: Unix seconds.
    """
    if not options.notify or not database.exists():
        return
    with database.translated("write"), closing(database.open()) as connection:
        try:
            note_stale_rows(connection, options, now)
        except SourceError as error:  # the limits of its tables are not known
            logger.error("%s", error)


def note_stale_rows(connection: Connection, options: Options, now: int) -> None:
    """Do what ``note_stale_sources`` does over a connection.

    Raises:
        SourceError: sources.toml cannot be read.
    """
    declared = load_stored_jobs_and_sources(options, connection)
    unvisited = {*vanished_sources(connection, options, declared), *declared.wrong}
    stored, known = stored_visibilities(connection), stale_source_rows(connection)
    failed_starts = cache(partial(failed_start_sources, connection))
    for name, (begun, seen) in seen_source_times(connection).items():
        condition = Condition(begun, seen, is_visited=name not in unvisited)
        limits = source_limits(declared, name, options.limits)
        is_stale = is_source_stale(condition, limits, now)
        if is_stale is (name in known) or (is_stale and name in failed_starts()):
            continue
        with transaction(connection):
            note = (
                note_stale_source_row(connection, name, now)
                if is_stale
                else (note_recovered_source_row(connection, name))
            )
            if note:
                write = _Writer(connection, options.notify, name, stored[name], now=now)
                data = {"ageSeconds": source_age(condition, now), "maxAge": limits.max_age}
                event = Event.SOURCE_STALE if is_stale else Event.SOURCE_RECOVERED
                write(event, data if is_stale else {})


# Delivery


class Delivery:
    """Sends what waits, each target's notices in their order, until a time is over."""

    def __init__(
        self,
        connection: Connection,
        targets: Iterable[NotifyTarget],
        guard: ConnectionGuard,
        *,
        clock: Callable[[], float] | None = None,
        is_ending: Callable[[], bool] = lambda: False,
        known: Sequence[str] | None = None,
    ) -> None:
        """``known``: the names of all targets that have a table; None: those of ``targets``."""
        self._connection = connection
        self._targets = {target.name: target for target in targets}
        self._known = list(self._targets) if known is None else list(known)
        self._guard = guard
        self._clock = clock or time.time
        self._is_ending = is_ending
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{token_hex(4)}"
        self.failed: dict[str, str] = {}  #: targets that took no notice, each with the reason

    def deliver(self, seconds: float) -> int:
        """Send for some seconds at most; return the number of notices that were taken."""
        end, taken = time.monotonic() + seconds, 0
        end_lost_notices(self._connection, self._known, int(self._clock()))
        for name in waiting_notice_targets(self._connection, list(self._targets)):
            taken += self._deliver_to(self._targets[name], end)
        return taken

    def _deliver_to(self, target: NotifyTarget, end: float) -> int:
        taken = 0
        try:
            while time.monotonic() < end and not self._is_ending():
                if not self._claims(target):  # again before each one: a claim ends by itself
                    break
                notice = first_notice_row(self._connection, target.name)
                if notice is None or not self._is_taken(target, notice, end):
                    break
                taken += 1
        finally:
            with transaction(self._connection):
                release_notice_target_row(self._connection, target.name, self._owner)
        return taken

    def _claims(self, target: NotifyTarget) -> bool:
        with transaction(self._connection):
            now = int(self._clock())
            return claim_notice_target_row(self._connection, target.name, self._owner, now)

    def _is_taken(self, target: NotifyTarget, notice: StoredNotice, end: float) -> bool:
        """Whether a target took a notice; an attempt that ``end`` cut short does not count."""
        seconds = min(SECONDS, end - time.monotonic())
        try:
            letter = notice_letter(notice, int(self._clock()))
            send_notice(target, letter, self._guard, seconds=seconds)
        except NoticeError as error:
            if seconds == SECONDS or time.monotonic() < end:
                self._note_failure(target, notice, error)
            return False
        with transaction(self._connection):
            end_notice_row(self._connection, target.name, notice, int(self._clock()))
        return True

    def _note_failure(self, target: NotifyTarget, notice: StoredNotice, error: NoticeError) -> None:
        self.failed[target.name] = str(error)
        now = int(self._clock())
        with transaction(self._connection):
            if isinstance(error, TargetClosedError):
                close_notice_target_row(self._connection, target.name, now, str(error))
            else:
                fail_notice_row(self._connection, target.name, notice, now, str(error))
        logger.warning("notices to %s: %s", target.name, error)


def notice_letter(notice: StoredNotice, now: int) -> Letter:
    """Return what is sent of a notice; ``now``: Unix seconds of this attempt."""
    event, source, data = notice.event, notice.source, notice.data
    return Letter(
        notice.id,
        now,
        notice_title(event, source, data),
        notice_text(event, source, data),
        notice_body(event, source, data, notice.at),
    )


def notice_guard(options: Options) -> ConnectionGuard:
    """Return the guard of webhooks: that of all requests."""
    return ConnectionGuard(options.allow_networks, options.allow_ports)


_LOOKED: Final = 60  #: seconds between two looks of a server for sources that are stale
_TICK: Final = 30.0  #: seconds for which a server sends before it looks again


def notice_tick(
    options: Options, is_ending: Callable[[], bool], connection: Connection
) -> Callable[[int], None]:
    """Return the work of a server's tick: look for stale sources now and then, and send."""
    delivery = Delivery(connection, options.notify, notice_guard(options), is_ending=is_ending)
    looked = 0

    def tick(now: int) -> None:
        nonlocal looked
        if not 0 <= now - looked < _LOOKED:
            looked = now
            with suppress(SourceError):  # each request that reads the file logs what is wrong
                note_stale_rows(connection, options, now)
        delivery.deliver(_TICK)

    return tick


def deliver_notices(
    options: Options, *, seconds: float = COMMAND_SECONDS
) -> SmartcrawlError | None:
    """Send waiting notices before a command ends; later commands and servers send the rest.

    An error is logged and returned: the command has done its work.
    """
    if not options.notify:
        return None
    database = registry_database(options.registry)
    try:
        if not database.exists():
            return None
        note_stale_sources(options, database, int(time.time()))
        with database.translated("write"), closing(database.open()) as connection:
            Delivery(connection, options.notify, notice_guard(options)).deliver(seconds)
    except SmartcrawlError as error:
        logger.error("notices were not sent: %s", error)
        return error
    return None

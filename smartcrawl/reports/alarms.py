"""How each source is: well, worth a look, or to be repaired; with the limits of its table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.status import (
    Ages,
    Bytes,
    SourceStatus,
    StatusReportChanges,
    StatusReportCounts,
    reported_concerns,
    status_report,
)
from smartcrawl.reports.text import report_noun, report_time_span
from smartcrawl.reports.today import vanished_sources
from smartcrawl.rules.alarms import (
    Alarm,
    Condition,
    Level,
    Limits,
    last_run_fault,
    source_age,
    source_alarm,
    worst_level,
)
from smartcrawl.rules.model import BEFORE_SEAL
from smartcrawl.sources.base import declared_visibilities
from smartcrawl.sources.declared import DeclaredSources

_SEEN: Final = """
SELECT s.name, min(r.started_at), max(s.fresh_at)
  FROM run r JOIN source s ON s.no = r.source GROUP BY s.name
"""
_MISTAKE: Final = "its table in sources.toml has a mistake"
_NAMED: Final = 5  #: sources that the line of a check names
_REASONS: Final = 4  #: reasons of each


@dataclass(frozen=True, slots=True)
class ReportedAlarm:
    """One source, with what its alarm follows from."""

    status: SourceStatus
    condition: Condition
    limits: Limits
    alarm: Alarm

    @property
    def source(self) -> str:
        """The name of the source."""
        return str(self.status.source)

    def text(self, now: int) -> str:
        """Return the source and why it is as it is, as a part of a line."""
        age = report_time_span(source_age(self.condition, now))
        limit = report_time_span(self.limits.max_age)
        stale = f"stale, not seen whole for {age} (max_age: {limit})"
        reasons = [stale if reason == "stale" else reason for reason in self.alarm.reasons]
        if len(reasons) > _REASONS:
            reasons[_REASONS:] = [f"{len(reasons) - _REASONS} more"]
        return f"{self.source}: {', '.join(reasons)}"


def seen_source_times(connection: Connection) -> dict[str, tuple[int, int | None]]:
    """Return by name when the first run of each source began, and when nothing was overdue last."""
    rows: Any = connection.execute(_SEEN).fetchall()
    return {str(name): (begun, seen) for name, begun, seen in rows}


def source_limits(declared: DeclaredSources | None, name: str, usual: Limits) -> Limits:
    """Return the limits of a source; ``usual``: those of the settings."""
    source = None if declared is None else declared.get(name)
    return usual if source is None else source.alarm_limits(usual)


def source_alarms(
    connection: Connection,
    options: Options,
    now: int,
    *,
    is_held: Callable[[str], bool],
    declared: DeclaredSources | None,
    sources: Sequence[str] = (),
    left_out: Collection[str] = (),
) -> list[ReportedAlarm]:
    """Return the alarm of each source (of all where none is named), by name.

    ``now`` is in Unix seconds. ``is_held``: whether a process crawls a source. ``declared``: the
    sources of today, None where they cannot be read: the limits of the settings count then.
    ``left_out``: those that have no alarm.
    """
    vanished = () if declared is None else vanished_sources(connection, options, declared)
    *found, _ = status_report(
        connection,
        now,
        sources=sources,
        vanished=vanished,
        wrong=() if declared is None else declared.wrong,
        visibilities=declared_visibilities(declared or {}),
        left_out=left_out,
    )
    times = seen_source_times(connection)
    alarms = []
    for status in found:
        name = str(status.source)
        limits = source_limits(declared, name, options.limits)
        concerns = reported_concerns(status, now, longest=options.schedule.longest)
        looks = tuple(_short(concern.text) for concern in concerns)
        condition = _condition(status, times.get(name), is_held, looks)
        alarm = source_alarm(condition, limits, now)
        alarms.append(ReportedAlarm(status, condition, limits, alarm))
    return alarms


def uncrawled_alarms(
    declared: DeclaredSources, known: Collection[str], options: Options, now: int
) -> list[ReportedAlarm]:
    """Return the alarms of sources whose tables have mistakes, and that no run has opened yet.

    The registry knows nothing of them. ``known``: the names of those that it has.
    """
    alarms = []
    for name in sorted(set(declared.wrong) - set(known)):
        condition = Condition(None, None, is_visited=False, looks=(_MISTAKE,))
        alarm = source_alarm(condition, options.limits, now)
        status = SourceStatus(
            name,
            StatusReportCounts(),
            Ages(),
            StatusReportChanges(),
            Bytes(),
            is_wrong=True,
        )
        alarms.append(ReportedAlarm(status, condition, options.limits, alarm))
    return alarms


def _condition(
    status: SourceStatus,
    times: tuple[int, int | None] | None,
    is_held: Callable[[str], bool],
    looks: tuple[str, ...],
) -> Condition:
    begun, seen = times or (None, None)
    run, fault = status.last_run, None
    if run is not None:
        has_died = run.state in BEFORE_SEAL and not is_held(str(status.source))
        fault = last_run_fault(run.state, run.reasons, has_died=has_died)
    return Condition(
        begun_at=begun,
        seen_at=seen,
        is_visited=not (status.is_vanished or status.is_wrong),
        fault=fault,
        failed=status.counts.error_rate or 0.0,
        waiting=status.counts.withheld,
        looks=looks,
    )


def _short(text: str) -> str:
    """Return a concern without its explanation.

    >>> _short("3 lost: now returns an error; the last good copy is still searchable")
    '3 lost'
    >>> _short("not complete: max_pages (more pages were found)")
    'not complete: max_pages'
    """
    end = " (" if text.startswith("not complete: ") else ": "
    return text.partition(end)[0]


def check_line(alarms: Sequence[ReportedAlarm], now: int) -> str:
    """Return one line about all sources, the worst first.

    It names a few, and says how many more there are.
    """
    level = worst_level(one.alarm for one in alarms)
    if level is Level.WELL:
        verb = "is" if len(alarms) == 1 else "are"
        return f"well: {report_noun(len(alarms), 'source')} {verb} fresh, complete and healthy"
    ill = sorted(
        (one for one in alarms if one.alarm.level is not Level.WELL),
        key=lambda one: -one.alarm.level,
    )
    parts = [one.text(now) for one in ill[:_NAMED]]
    if len(ill) > _NAMED:
        parts.append(f"and {len(ill) - _NAMED} more of {len(alarms)} sources")
    return f"{level.name.lower()}: {'; '.join(parts)}"


def check_data(alarms: Iterable[ReportedAlarm], now: int) -> list[Mapping[str, Any]]:
    """Return each source with its level, its reasons and the figures that they follow from."""
    return [
        {
            "source": one.source,
            "level": one.alarm.level.name.lower(),
            "reasons": list(one.alarm.reasons),
            "ageSeconds": source_age(one.condition, now),
            "maxAge": one.limits.max_age,
            "failed": one.condition.failed,
            "maxFailed": one.limits.max_failed,
        }
        for one in alarms
    ]

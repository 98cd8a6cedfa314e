"""The schedule of a recurring job: a cron expression of five fields in UTC (R2-23, G-13)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from typing import Final, Self

from cronsim import CronSim, CronSimError

MAX_LENGTH: Final = 100  #: characters (R2-58)
LEAST_MINUTES: Final = 5  #: between two fires
_FIELDS: Final = 5
_DAY: Final = 1_440  #: minutes
#: Weekdays and leap years repeat after so many years.
_CYCLE: Final = timedelta(days=28 * 366)
_CHARACTERS: Final = re.compile(r"[0-9A-Za-z*/,#\- \t]*")
_TAKES: Final = "five fields: minute, hour, day of month, month, day of week, as in 0 3 * * 1-5"


@dataclass(frozen=True, slots=True)
class CronSchedule:
    """The fire times of one checked cron expression. Times are Unix seconds."""

    text: str

    @classmethod
    def parsed(cls, text: str, now: int) -> Self:
        """Return the schedule of an expression.

        Raises:
            ValueError: it has not five fields, never fires after ``now``, or fires too often.
        """
        if len(text) > MAX_LENGTH:
            raise ValueError(f"cron must have at most {MAX_LENGTH} characters, not {len(text):,}")
        if not _CHARACTERS.fullmatch(text):
            raise ValueError(f"cron must consist of {_TAKES}")
        fields = text.split()
        if len(fields) != _FIELDS:
            raise ValueError(f"cron must have {_TAKES}; it has {len(fields)} fields")
        schedule = cls(" ".join(fields))
        try:
            parts = CronSim(schedule.text, _moment(now))
            next(parts)
        except CronSimError as error:
            raise ValueError(f"cron must have {_TAKES} ({error})") from error
        except StopIteration:
            raise ValueError("cron never fires: no day of any month matches it") from None
        minutes = sorted(60 * hour + minute for hour in parts.hours for minute in parts.minutes)
        if schedule._least_gap(minutes) < LEAST_MINUTES:
            raise ValueError(
                f"cron must leave at least {LEAST_MINUTES} minutes between two runs,"
                " as */5 * * * * does"
            )
        return schedule

    def next_fire(self, after: int) -> int:
        """Return the first fire time later than ``after``.

        Raises:
            ValueError: there is none, or this version refuses the expression.

        >>> CronSchedule("0 0 * * *").next_fire(1_705_744_800)  # 2024-01-20T10:00:00Z
        1705795200
        """
        try:
            return int(next(CronSim(self.text, _moment(after))).timestamp())
        except (CronSimError, StopIteration):
            raise ValueError(f"cron must have {_TAKES}, and fire") from None

    def fire_after(self, due_at: int, now: int) -> int:
        """Return the fire time that follows a run for ``due_at`` that begins ``now``.

        Fires missed between the two are skipped: the run stands for all of them. A clock that was
        put back never leads to a time at or before ``due_at``.
        """
        return self.next_fire(max(due_at, now))

    def _least_gap(self, minutes: list[int]) -> int:
        """Return the least distance of two fires, in minutes.

        ``minutes``: those of a day at which it fires, sorted.
        """
        within = [after - before for before, after in pairwise(minutes)]
        over_night = _DAY - minutes[-1] + minutes[0]
        if over_night < LEAST_MINUTES and self._fires_on_two_days_in_a_row():
            within.append(over_night)
        return min(within, default=_DAY)

    def _fires_on_two_days_in_a_row(self) -> bool:
        start = datetime(2000, 1, 1, tzinfo=UTC)
        days = CronSim(f"0 0 {' '.join(self.text.split()[2:])}", start)
        within = takewhile(lambda day: day - start < _CYCLE, days)
        return any(after - before == timedelta(days=1) for before, after in pairwise(within))


def _moment(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)

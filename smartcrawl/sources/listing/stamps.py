"""Validators of local files: times of the file system with nanoseconds (R1-28)."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from enum import StrEnum, auto
from functools import lru_cache
from typing import Final, assert_never

#: Nanoseconds before the start of a pass. A file that changes twice within the granularity of a
#: file system's times keeps its time; FAT has the coarsest, two seconds.
RACY: Final = 2_000_000_000
_DAY: Final = 86_400
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class FileValidator(StrEnum):
    """Ways to see that a local file changed (FILE_VALIDATOR)."""

    MTIME = auto()
    CTIME = auto()  #: also sees edits that set the mtime back; chmod and rename count as changes
    HASH = auto()  #: every file is read by every run


def listed_file_validator(how: FileValidator, found: os.stat_result, now_ns: int) -> str | None:
    """Return the validator of a file in a pass that began at ``now_ns`` (Unix nanoseconds).

    None: it must not be trusted. The time is less than two seconds older than the pass, or in its
    future, or no calendar has it; or files are to be compared by their hashes.
    """
    at = _time(how, found)
    return None if at is None or now_ns - at < RACY else listed_file_time(at)


def is_validator_of_listed_file(
    validator: str | None, how: FileValidator, found: os.stat_result
) -> bool:
    """Whether a trusted validator is still that of a file."""
    at = _time(how, found)
    return validator is not None and at is not None and listed_file_time(at) == validator


def _time(how: FileValidator, found: os.stat_result) -> int | None:
    match how:
        case FileValidator.MTIME:
            return found.st_mtime_ns
        case FileValidator.CTIME:
            return found.st_ctime_ns
        case FileValidator.HASH:
            return None
        case _:
            assert_never(how)


def listed_file_modified_at(found: os.stat_result) -> int | None:
    """Return the mtime of a file in Unix seconds, or None where no calendar has it."""
    seconds = found.st_mtime_ns // 1_000_000_000
    return None if _date(seconds // _DAY) is None else seconds


def listed_file_time(at: int) -> str | None:
    """Return Unix nanoseconds as ISO 8601 in UTC; None outside of the years 1 to 9999.

    >>> listed_file_time(1_795_589_419_123_456_789), listed_file_time(-1)
    ('2026-11-25T06:50:19.123456789Z', '1969-12-31T23:59:59.999999999Z')

    Source: R1-28.
    """
    seconds, nanoseconds = divmod(at, 1_000_000_000)
    day, second = divmod(seconds, _DAY)
    date = _date(day)
    if date is None:
        return None
    return f"{date}T{_clock(second // 60)}:{second % 60:02}.{nanoseconds:09}Z"


@lru_cache(maxsize=1_440)
def _clock(minute: int) -> str:
    """Return a minute of the day as hours and minutes."""
    return f"{minute // 60:02}:{minute % 60:02}"


@lru_cache(maxsize=10_000)
def _date(day: int) -> str | None:
    """Return the date of a day after 1970-01-01."""
    try:
        return (_EPOCH + timedelta(days=day)).date().isoformat()
    except OverflowError:
        return None

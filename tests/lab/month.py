"""Events of a simulated month, what nights see of them, and their table."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A disk of its own, which can be filled; ``size``: as mount(8) has it."""
    place.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    if subprocess.run(mounted, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here, so none fills")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_disk(disk: Path) -> None:
    """Fill a disk by the file ``filler``, to the last page."""
    with (disk / "filler").open("wb") as filler:
        try:
            for _ in count():
                filler.write(bytes(1 << 16))
                filler.flush()
        except OSError:
            pass


@dataclass
class Night:
    """What a night saw."""

    due: int  #: worst exit status of the runs
    check: int  #: exit status of the check
    line: str  #: what it printed
    reasons: dict[str, list[str]]  #: by source, of those with an alarm
    ops: list[dict[str, Any]]  #: notices
    editors: list[dict[str, Any]]


@dataclass
class Event:
    """Something that happens to a source from one day to another."""

    name: str
    source: str
    day: int
    end: int | None  #: None: it stays as it is
    begin: Callable[[], None]
    undo: Callable[[], None] = lambda: None
    seen: int | None = None
    over: int | None = None
    said: list[str] = field(default_factory=list)
    page: str = ""  #: the address whose difference shows it


def notices_of(night: Night, source: str) -> list[str]:
    """The notices of a night about a source, in words."""
    ops = [one["type"] for one in night.ops if one["data"]["source"] == source]
    changes = [one["data"]["counts"] for one in night.editors if one["data"]["source"] == source]
    return ops + [f"changes {', '.join(f'{n} {kind}' for kind, n in c.items())}" for c in changes]


def table(found: list[Event], days: list[Night]) -> str:
    """The events with what was seen of them."""
    lines = ["day  seen  over  source   event                             said"]
    for one in found:
        seen, over = (("-" if at is None else str(at)) for at in (one.seen, one.over))
        said = "; ".join(one.said)
        lines.append(f"{one.day:>3}  {seen:>4}  {over:>4}  {one.source:<8} {one.name:<33} {said}")
    lines.append(f"checks by status: {[night.check for night in days]}")
    return "\n".join(lines)


def note(event: Event, day: int, night: Night) -> None:
    """Note whether a night saw an event, or its end."""
    if day < event.day or event.over is not None:
        return
    alarm, notices = night.reasons.get(event.source, []), notices_of(night, event.source)
    is_over = event.end is None or day >= event.end
    if event.seen is None and (alarm or notices or night.check == 3):
        event.seen = day
        event.said += [f"check {night.check}: {', '.join(alarm) or night.line[:60]}", *notices]
    elif event.seen is not None:
        event.said += [notice for notice in notices if notice not in event.said]
    if event.seen is not None and is_over and not alarm and night.check != 3:
        event.over = day


def judged_events(by_name: dict[str, Event], *incomplete: str) -> dict[str, str]:
    """Return the alarms and notices of each event by its name; all have one, and an end.

    ``incomplete``: the names of those that leave runs incomplete, from their day to their end.
    """
    assert [name for name, one in by_name.items() if one.seen is None or one.over is None] == []
    said = {name: " | ".join(one.said) for name, one in by_name.items()}
    assert "changes 1 modified" in said["a page is rewritten"]
    assert "1 lost" in said["a page is deleted"]
    assert "1 modified, 1 removed" in said["files are edited and deleted"]
    for name in (
        "all pages answer 500",
        "no page answers in time",
        "a wall answers 403",
        "a folder is not mounted",
        "the receiver of notices is away",
        *incomplete,
    ):
        one = by_name[name]
        assert "run.incomplete" in said[name], name
        assert one.seen == one.day, name
        assert one.over is not None
        assert one.over - (one.end or 0) <= 1, name
    assert "source.stale | source.recovered" in said["three hosts are away"]
    return said

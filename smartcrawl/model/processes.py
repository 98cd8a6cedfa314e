"""Processes of this machine and of others, each with a name that no later one gets."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_PROC: Final = Path("/proc")
_BOOT: Final = _PROC / "sys" / "kernel" / "random" / "boot_id"
_STATE, _PARENT, _START = 0, 1, 19  #: fields of /proc/PID/stat after the name of the program


@dataclass(frozen=True, slots=True)
class Process:
    """One process. Its number alone is not enough: the system gives it again."""

    host: str
    pid: int
    start: str  #: boot of the machine, and clock ticks from there to the start of the process

    @classmethod
    def this(cls) -> Self:
        """Return this process."""
        return cls.of(os.getpid())

    @classmethod
    def of(cls, pid: int) -> Self:
        """Return the process of this machine that has a number now."""
        return cls(socket.gethostname(), pid, _start_of(pid) or "")

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the process of a text.

        >>> Process.parsed("4711 1f-99 a.example")
        Process(host='a.example', pid=4711, start='1f-99')
        """
        pid, start, host = text.split(" ", 2)
        return cls(host, int(pid), start)

    def __str__(self) -> str:
        """Return it as a text."""
        return f"{self.pid} {self.start} {self.host}"

    @property
    def is_here(self) -> bool:
        """Whether it is, or was, a process of this machine."""
        return self.host == socket.gethostname()

    def is_alive(self) -> bool:
        """Whether a process of this machine runs; a dead one that waits to be reaped does not."""
        return self.start != "" and _start_of(self.pid) == self.start


def exit_status_signal(exit_status: int) -> str:
    """Return the name of the signal that ended a process; its exit status is negative.

    >>> exit_status_signal(-9), exit_status_signal(-40)
    ('SIGKILL', 'signal 40')
    """
    try:
        return signal.Signals(-exit_status).name
    except ValueError:  # a real-time signal
        return f"signal {-exit_status}"


def descendants_of(pid: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir(_PROC)):
        with suppress(OSError, IndexError):  # it ended meanwhile
            children.setdefault(int(_fields_of(name)[_PARENT]), []).append(int(name))
    found, rest = [], [pid]
    while rest:
        below = children.get(rest.pop(), [])
        found += below
        rest += below
    return found


def _start_of(pid: int) -> str | None:
    """Return when a process started; None if none has the number."""
    try:
        boot = _BOOT.read_text("ascii").strip()
        fields = _fields_of(pid)
    except OSError:
        return None
    return None if fields[_STATE] in ("Z", "X") else f"{boot}-{fields[_START]}"


def _fields_of(pid: int | str) -> list[str]:
    """Return what /proc/PID/stat has after the name, which may contain spaces and brackets.

    Raises:
        OSError: no process has the number.
    """
    return (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()

"""Confinement of a reading process: it gives up files, network and other processes.

Each layer works alone, and where a platform lacks one, the others stay. The layers are limits of
the kernel, a separate network without any interface, a list of the allowed system calls, and a
hook in Python that refuses everything else by name.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final

HAS_LIMITS: Final = find_spec("resource") is not None  #: not on Windows
if HAS_LIMITS:
    import resource

_FILES: Final = 3  #: descriptors: standard input, output and error, so that no other is opened
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
PR_SET_PDEATHSIG: Final = 1
_PR_SET_SECCOMP: Final = 22
PR_SET_NO_NEW_PRIVS: Final = 38
_SECCOMP_MODE_FILTER: Final = 2

# Instructions of a filter (seccomp(2)), and offsets in its view of a call.
LOAD, EQUALS, RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, ARGUMENT = 0, 4, 16
ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050001  #: the call fails with EPERM
_KILL: Final = 0x80000000

# fmt: off
#: The allowed calls on x86-64 and arm64: memory, time, open descriptors, signals, the end.
_CALLS: Final = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "close": (3, 57),
    "lseek": (8, 62), "fstat": (5, 80), "newfstatat": (262, 79),
    "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233), "brk": (12, 214), "membarrier": (324, 283),
    "futex": (202, 98), "set_robust_list": (273, 99), "rseq": (334, 293),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    "nanosleep": (35, 101), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115), "gettimeofday": (96, 169), "getrusage": (98, 165),
    "times": (100, 153), "sysinfo": (99, 179), "uname": (63, 160), "getrandom": (318, 278),
    "getpid": (39, 172), "gettid": (186, 178), "getppid": (110, 173), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "exit": (60, 93), "exit_group": (231, 94),
}
_PRLIMIT: Final = (302, 261)  #: for this process only
_TGKILL: Final = (234, 131)  #: for this process only: abort() sends itself a signal
#: Column of the numbers above and the kernel's name of the machine.
_MACHINES: Final = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# fmt: on

#: Begin of the names of events (sys.audit) that Python raises before a refused act.
_REFUSED: Final = (
    "socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system",
    "os.startfile", "os.kill", "os.putenv", "os.remove", "os.rename", "os.mkdir", "os.rmdir",
    "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.listdir", "os.scandir",
    "pty.", "shutil.", "tempfile.", "ctypes.dlopen", "mmap.", "sqlite3.", "urllib.", "http.",
    "ftplib.", "smtplib.", "webbrowser.",
)  # fmt: skip


def confine_extraction(memory: int) -> list[str]:
    """Confine this process for good, and return the limits that the platform lacks, for a warning.

    ``memory`` is its address space in bytes. Afterwards it can only compute, and read and write its
    three descriptors; it can open nothing, and start no process or thread. It ends when its parent
    does. All modules must be imported before.
    """
    missing = [] if HAS_LIMITS else ["memory", "processor time"]
    if HAS_LIMITS:
        _limit(memory)
    if not _isolate():
        missing += ["network and system calls"]
    sys.addaudithook(_refuse)
    return missing


def confine_extraction_time(seconds: int) -> None:
    """Let the kernel end this process after so many more seconds of CPU (SIGXCPU)."""
    if not HAS_LIMITS:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    until = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until if most < 0 else min(until, most), most))


def _limit(memory: int) -> None:
    _lower(resource.RLIMIT_AS, memory)
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    _lower(resource.RLIMIT_NOFILE, _FILES)
    _lower(resource.RLIMIT_NPROC, 0)  # threads count, too; root may exceed it


def _lower(limit: int, value: int) -> None:
    _, most = resource.getrlimit(limit)
    value = value if most < 0 else min(value, most)
    resource.setrlimit(limit, (value, value))


def _isolate() -> bool:
    """Cut off the network and other processes, as Linux can; return whether it worked."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    # A user namespace gives the right to a network namespace; containers often forbid it.
    alone: bool = libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a new namespace resets it
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return alone
    return _filter(libc) or alone


#: An instruction, how many to leave out if it holds and if not, and its value.
FilterLine = tuple[int, int, int, int]


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_ushort),
        ("jump_if", ctypes.c_ubyte),
        ("jump_else", ctypes.c_ubyte),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction)))


def _filter(libc: ctypes.CDLL) -> bool:
    """Have the kernel refuse all system calls but those of the table; return whether it does."""
    if platform.machine() not in _MACHINES or sys.maxsize < 2**32:
        return False
    column, machine = _MACHINES[platform.machine()]
    lines = call_number_of(machine)
    for numbers in _CALLS.values():
        lines += [(EQUALS, 0, 1, numbers[column]), (RETURN, 0, 0, ALLOW)]
    for numbers, own in ((_PRLIMIT, 0), (_TGKILL, os.getpid())):
        lines += [
            (EQUALS, 0, 3, numbers[column]),
            (LOAD, 0, 0, ARGUMENT),
            (EQUALS, 0, 1, own),
            (RETURN, 0, 0, ALLOW),
        ]
    lines.append((RETURN, 0, 0, _REFUSE))
    return install_call_filter(libc, lines)


def call_number_of(machine: int) -> list[FilterLine]:
    """Return the lines that load the number of a call, and end a process of another machine.

    ``machine``: the kernel's name of it; numbers mean other calls on others.
    """
    return [
        (LOAD, 0, 0, _ARCHITECTURE),
        (EQUALS, 1, 0, machine),
        (RETURN, 0, 0, _KILL),
        (LOAD, 0, 0, _NUMBER),
    ]


def install_call_filter(libc: ctypes.CDLL, lines: Sequence[FilterLine]) -> bool:
    """Have the kernel judge each system call by the lines of a filter; return whether it does.

    The process must have given up new rights before. The filter holds for its children, too.
    """
    instructions = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    program = _Program(len(lines), instructions)
    code: int = libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)
    return code == 0


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse the same acts as the system calls above, by name and on every platform."""
    if event == "open" and not _reads(arguments):
        raise PermissionError(f"no file is written here: {arguments[0]!r}")
    if event.startswith(_REFUSED):
        raise PermissionError(f"not allowed while a document is read: {event}")


def _reads(arguments: tuple[Any, ...]) -> bool:
    _, mode, flags = arguments
    writes = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
    return not (set(mode or "") & set("wax+") or (flags or 0) & writes)

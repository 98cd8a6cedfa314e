"""Notes which marked places of the code a process came by, and for which test.

`marking.py` writes a copy of this file into the package of a marked checkout. A mark is one byte in
a mapped file, so that a process which may write nothing any more can still set it. Where the file
cannot be made, marks are set in memory and lost: the code goes on as if it had none.

The process of pytest takes its own marks (`own`, `taken`). Each other process has a file: the
marks, then the name of what was running when it began or was forked.
"""

import mmap
import os

FOLDER = ""  #: of the files; set in the copy
SIZE = 0  #: how many places there are; set in the copy
FIXTURE = "SMARTCRAWL_GATE_FIXTURE"  #: names a fixture of several tests while it is made
TEST = "PYTEST_CURRENT_TEST"

_pid = 0
_marks = bytearray(SIZE)


def hit(*numbers):
    """Mark places; it is called from the marked code."""
    if os.getpid() != _pid:
        _begin()
    for number in numbers:
        _marks[number] = 1


def own():
    """Keep the marks of this process in memory, until they are taken."""
    global _pid, _marks
    _pid, _marks = os.getpid(), bytearray(SIZE)


def taken():
    """Return the places that were marked since the last call."""
    found = [number for number, mark in enumerate(_marks) if mark] if any(_marks) else []
    for number in found:
        _marks[number] = 0
    return found


def running(environment):
    """Return the name of the test or fixture in an environment."""
    return environment.get(FIXTURE) or environment.get(TEST, "").rpartition(" (")[0]


def _begin():
    """Give this process a file; a process that may not have one goes on with its parent's."""
    global _pid, _marks  # noqa: PLW0603
    _pid = os.getpid()
    try:
        name = running(os.environ) or _running_above()
        if name:
            _marks = _mapped(f"{FOLDER}/{_pid}-{os.urandom(4).hex()}.marks", name)
    except Exception:  # noqa: BLE001  # it may be forbidden, in one way or another
        pass


def _mapped(path, name):
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        os.ftruncate(file, SIZE)
        os.pwrite(file, name.encode(), SIZE)
        return mmap.mmap(file, SIZE)
    finally:
        os.close(file)


def _running_above():
    """Return what a process above this one says is running; `note` of the plugin writes it."""
    pid = os.getpid()
    while pid > 1:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        try:
            with open(f"{FOLDER}/current.{pid}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            continue
    return ""

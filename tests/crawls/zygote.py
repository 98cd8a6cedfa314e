"""Runs commands of scrapy in forks of a process that has imported everything already.

A command costs three quarters of a second of imports before it does anything, and the tests of
this folder give more than a thousand. `ready.py` says which are started here.

Standard input is a socket, which several processes may share; each message is an order in JSON,
with descriptors of files. The last one is a socket for answers: the number of the process, and its
exit status. The process is a zombie until the other end is closed. The others are the standard
input, output and error of the command.

    args          what a command line of Python has: -m, module, arguments; or arguments of scrapy.
                  Where the first is `smartcrawl`, the rest is what that program takes; where it
                  is `runner`, what tests/crawls/runner.py takes
    environment   all of it
    folder        that the command works in
    ended         of a command that no test waits for: the path of a file that gets its exit status

A message that is a JSON string names a module that is imported for all later commands; it is the
answer, too. ARRANGED_BY in the environment names a module that is imported before the command
begins.
"""

import atexit
import ctypes
import gc
import json
import logging
import os
import re
import runpy
import selectors
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from types import ModuleType
from typing import Any

import twisted
from scrapy import cmdline
from scrapy.settings import default_settings
from scrapy.utils import versions

import smartcrawl
from smartcrawl.registry.database.migrations import migrations

_LONGEST = 1_000_000  #: bytes of an order, at most
_FILES = 4  #: of an order, at most
#: What a crawl imports as it goes; the reactor itself is for each process to install.
_ON_THE_WAY = (
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.engine",
    "scrapy.crawler",
    "scrapy.spiderloader",
    "scrapy.statscollectors",
)
_DIALECTS = ("sqlite", "postgres")
_NOT_YET = ("smartcrawl.__main__", "smartcrawl.extract.child", "smartcrawl.settings")


def main() -> None:
    for package in ("scrapy.commands", "smartcrawl.commands"):
        for module in iter_modules(import_module(package).__path__):
            import_module(f"{package}.{module.name}")
    for name in _ON_THE_WAY:
        import_module(name)
    for module in walk_packages(smartcrawl.__path__, "smartcrawl."):
        if module.name not in _NOT_YET:
            import_module(module.name)
    for name in vars(default_settings):
        if name.endswith("_BASE"):  # components, by the path of their class
            for path in getattr(default_settings, name):
                if isinstance(path, str) and path.count("."):
                    import_module(path.rpartition(".")[0])
    _look_up_commands()
    assert "twisted.internet.reactor" not in sys.modules, twisted.__version__
    gc.collect()
    _keep()  # no fork looks at what all of them share
    _use_large_pages()
    gc.set_threshold(50_000)  # a small crawl has nothing that is worth looking for
    with socket.socket(fileno=sys.stdin.fileno()) as orders:
        Commands(orders).serve()


class Commands:
    """The commands that run, or whose end no test has waited for."""

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders
        self._events = selectors.DefaultSelector()
        self._events.register(orders, selectors.EVENT_READ, self._take)

    def serve(self) -> None:
        """Take orders until the last test process closes its end."""
        while True:
            for key, _ in self._events.select():
                if key.data() is False:
                    return

    def _take(self) -> bool:
        """Take an order; return whether there may be more."""
        text, files, *_ = socket.recv_fds(self._orders, _LONGEST, _FILES)
        if not text:
            return False
        *standard, answers = files
        order = json.loads(text)
        if isinstance(order, str):
            import_module(order)
            _keep()
            _tell(answers, order)
            os.close(answers)
            return True
        pid = os.fork()
        if pid == 0:
            _answer(order, standard)
        for file in standard:
            os.close(file)
        _tell(answers, pid)
        if "ended" in order:
            os.close(answers)
            self._when(os.pidfd_open(pid), partial(self._write, pid, Path(order["ended"])))
        else:
            self._when(os.pidfd_open(pid), partial(self._report, pid, answers))
        return True

    def _when(self, file: int, act: Callable[[], object]) -> None:
        """Act once when a file can be read, and close it."""

        def done() -> None:
            self._events.unregister(file)
            act()
            os.close(file)

        self._events.register(file, selectors.EVENT_READ, done)

    def _write(self, pid: int, path: Path) -> None:
        whole = path.with_suffix(".part")
        whole.write_text(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
        whole.rename(path)

    def _report(self, pid: int, answers: int) -> None:
        """Tell the exit status, and wait for the process when it was read."""
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert found is not None
        _tell(answers, found.si_status if found.si_code == os.CLD_EXITED else -found.si_status)
        self._when(answers, lambda: os.waitpid(pid, 0))


def _tell(answers: int, answer: object) -> None:
    with suppress(OSError):  # the test process has ended
        os.write(answers, str(answer).encode())


def _look_up_commands() -> None:
    """Do what every command does first, so that its results are there already.

    The entry points and versions are those of the packages that are installed: to read them, each
    command would open two hundred files.
    """
    packages = ("scrapy.commands", "smartcrawl.commands")
    classes = {package: list(cmdline._iter_command_classes(package)) for package in packages}
    cmdline._iter_command_classes = classes.__getitem__
    found = {group: entry_points(group=group) for group in ("scrapy.commands",)}
    cmdline.entry_points = lambda group: found[group]
    versions._version = cache(versions._version)
    versions.get_versions()
    set_level = logging.Logger.setLevel

    def set_other_level(logger: logging.Logger, level: int | str) -> None:
        """Set a level that is another one; each time all loggers forget what they know."""
        if logger.level != level:
            set_level(logger, level)

    logging.Logger.setLevel = set_other_level  # type: ignore[method-assign]
    for dialect in _DIALECTS:
        migrations(dialect)


_LARGE_PAGE = 2 * 1024 * 1024
_COLLAPSE = 25  #: MADV_COLLAPSE of Linux
_PRIVATE = re.compile(r"(\w+)-(\w+) rw-p \S+ 00:00 0 *(?:\[heap\])?")


def _use_large_pages() -> None:
    """Have the memory of this process in pages of 2 MiB, where the system can do that.

    A fork copies the table of pages: with small ones that takes 12 ms of computing, and now 7.
    """
    maps, madvise = Path("/proc/self/maps"), getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None or not maps.exists():
        return
    for line in maps.read_text().splitlines():
        if found := _PRIVATE.fullmatch(line):
            begin, end = (int(address, 16) for address in found.groups())
            begin = -(-begin // _LARGE_PAGE) * _LARGE_PAGE
            for address in range(begin, end - _LARGE_PAGE + 1, _LARGE_PAGE):
                madvise(ctypes.c_void_p(address), ctypes.c_size_t(_LARGE_PAGE), _COLLAPSE)


_holders: list[tuple[ModuleType, str]] = []  #: modules that have the settings, with their name


def _keep() -> None:
    """Keep all objects out of the garbage collector's way, and note who has the settings.

    A command that looked for the latter would have to copy thousands of pages of memory.
    """
    gc.freeze()
    settings = sys.modules.get("smartcrawl.settings")
    own = [module for name, module in sys.modules.items() if name.startswith("smartcrawl.")]
    _holders[:] = [
        (module, name)
        for module in own
        for name, value in vars(module).items()
        if value is settings is not None
    ]


def _read_settings_again() -> None:
    """Let commands have the settings of this environment, which are read when they are imported."""
    sys.modules.pop("smartcrawl.settings", None)
    if _holders:
        del smartcrawl.settings
        now = import_module("smartcrawl.settings")
        for module, name in _holders:
            setattr(module, name, now)


def _answer(order: dict[str, Any], files: Sequence[int]) -> None:
    """Be the command; never returns."""
    status = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(len(files), os.sysconf("SC_OPEN_MAX"))
        _open_streams()
        status = _exit_status(order)
        threading._shutdown()  # type: ignore[attr-defined]  # as at the end of a program
        atexit._run_exitfuncs()
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            status = 120  # as Python has it
    finally:
        os._exit(status)


def _open_streams() -> None:
    """Open standard input, output and error as Python does when it starts."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        now = open(  # noqa: SIM115
            number, "w" if number else "r", encoding=old.encoding, errors=old.errors, closefd=False
        )
        lines = old.line_buffering or now.isatty()
        now.reconfigure(line_buffering=lines, write_through=old.write_through)
        setattr(sys, name, now)
        setattr(sys, f"__{name}__", now)


def _exit_status(order: dict[str, Any]) -> int:
    """Run a command; return its exit status."""
    try:
        os.environ.clear()
        os.environ.update(order["environment"])
        time.tzset()
        tempfile.tempdir = None  # that of this environment
        os.chdir(order["folder"])
        _read_settings_again()
        if arranged := os.environ.get("ARRANGED_BY"):
            import_module(arranged)
        _run(order["args"])
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:  # noqa: BLE001  # shown as at the end of a program
        traceback.print_exc()
        return 1
    return 0


def _run(args: list[str]) -> None:
    match args:
        case ["-m", module, *rest]:
            sys.argv = [module, *rest]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case ["runner", *_]:
            sys.argv = args
            import_module("tests.crawls.runner").main()
        case ["smartcrawl", *rest]:
            sys.argv = args
            raise SystemExit(import_module("smartcrawl.commands.front").main_command(rest))
        case _:
            sys.argv = ["scrapy", *args]
            cmdline.execute(sys.argv)


if __name__ == "__main__":
    main()

"""Run the tests in forks of the process that has collected them: ``--forks=3``.

To import all modules of tests and make their items takes a quarter of a minute of computing, and
each worker of pytest-xdist does it again; here none does. Each fork begins with an equal part of
the tests, in their order. One that has none left takes half of what another still has, from its
end. A fork that dies fails the test that it was at, and the others go on with what it had left.

A fork that holds a database, say, has it for itself; what all forks share lies in `common_folder`.
"""

import fcntl
import gc
import mmap
import os
import pickle
import struct
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from _pytest.capture import FDCapture

#: In the environment of a fork: its number.
FORK: Final = "SMARTCRAWL_TEST_FORK"
_SECONDS: Final = 5.0  #: between two looks whether a fork that says nothing is alive
_NONE: Final = -1


class Part(NamedTuple):
    """What a fork has to do: the test that it is at, the next one, and all from first to end."""

    current: int
    following: int
    first: int
    end: int

    @property
    def rest(self) -> int:
        return self.end - self.first


class Parts:
    """The parts of all forks, in memory that they share."""

    _FORM: Final = struct.Struct("4q")

    def __init__(self, tests: int, forks: int) -> None:
        self._memory = mmap.mmap(-1, self._FORM.size * forks)
        self._lock = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        self.forks = forks
        for number in range(forks):
            first, end = (tests * no // forks for no in (number, number + 1))
            self._put(number, Part(_NONE, _NONE, first, end))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.lockf(self._lock, fcntl.LOCK_EX)  # a process that dies has it no longer
        try:
            yield
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def of(self, number: int) -> Part:
        return Part._make(self._FORM.unpack_from(self._memory, number * self._FORM.size))

    def _put(self, number: int, part: Part) -> None:
        self._FORM.pack_into(self._memory, number * self._FORM.size, *part)

    def take(self, number: int) -> Part:
        """Go on to the next test of a fork; ``current`` and ``following`` are -1 where none is."""
        with self._locked():
            part = self.of(number)
            current, part = (
                self._one(number, part) if part.following == _NONE else (part.following, part)
            )
            following, part = self._one(number, part) if current != _NONE else (_NONE, part)
            part = part._replace(current=current, following=following)
            self._put(number, part)
            return part

    def _one(self, number: int, part: Part) -> tuple[int, Part]:
        if not part.rest:
            others = [no for no in range(self.forks) if no != number and self.of(no).rest]
            if not others:
                return _NONE, part
            richest = max(others, key=lambda no: self.of(no).rest)
            there = self.of(richest)
            middle = there.end - (there.rest + 1) // 2
            self._put(richest, there._replace(end=middle))
            part = part._replace(first=middle, end=there.end)
        return part.first, part._replace(first=part.first + 1)

    def give_back(self, number: int) -> int:
        """Leave to the others what a fork that died had still to do; return what it was at."""
        with self._locked():
            part = self.of(number)
            if part.following != _NONE:
                part = part._replace(first=part.following)  # it is the one before the rest
            self._put(number, part._replace(current=_NONE, following=_NONE))
            return part.current

    def clear(self) -> None:
        """Leave nothing to do but the tests that run."""
        with self._locked():
            for number in range(self.forks):
                part = self.of(number)
                self._put(number, part._replace(first=part.end))


def common_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of this run of the tests share."""
    own = factory.getbasetemp()
    return own.parent if {FORK, "PYTEST_XDIST_WORKER"} & os.environ.keys() else own


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--forks", type=int, default=0, metavar="N", help="run the tests in N forks of this process"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests of a session in forks, if it is to; else None."""
    count = min(session.config.option.forks, len(session.items))
    if count < 1 or session.config.option.collectonly:
        return None
    if session.testsfailed and not session.config.option.continue_on_collection_errors:
        return None  # pytest says so
    parts = Parts(len(session.items), count)
    forks = _start(session, parts)
    try:
        _follow(session, parts, forks)
    finally:
        parts.clear()
        for fork in forks:
            fork.end()
    return True


# In the process that has collected the tests


class Fork:
    """A process that runs tests, as its parent sees it."""

    def __init__(self, number: int, pid: int, messages: Connection) -> None:
        self.number = number
        self.pid = pid
        self.messages = messages
        self._status: int | None = None

    def has_ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is not None

    def end(self) -> int:
        """Wait for the end of the process, and read nothing more of it; return its status."""
        self.messages.close()
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status


def _start(session: pytest.Session, parts: Parts) -> list[Fork]:
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # no fork looks at what all of them share
    forks = []
    for number in range(parts.forks):
        ours, theirs = Pipe(duplex=False)
        pid = os.fork()
        if pid == 0:
            for messages in (ours, *(fork.messages for fork in forks)):
                messages.close()  # else no fork would notice the end of their parent
            _be(number, session, parts, theirs)
        theirs.close()
        forks.append(Fork(number, pid, ours))
    return forks


def _follow(session: pytest.Session, parts: Parts, forks: Sequence[Fork]) -> None:
    """Pass on what the forks say, until all of them have done."""
    running = {fork.messages: fork for fork in forks}
    while running:
        said = wait([*running], timeout=_SECONDS)
        for messages in said or [m for m, fork in running.items() if fork.has_ended()]:
            fork = running[messages]
            try:
                kind, content = pickle.loads(messages.recv_bytes()) if said else ("died", None)
            except EOFError:
                kind, content = "died", None
            if kind == "tests":
                _report(session, content)
            elif kind == "warning":
                _pass_on(session, **content)
            else:
                del running[messages]
                if kind == "died":
                    _report_death(session, parts, fork)
                elif kind == "fault":
                    raise RuntimeError(f"a fork of the tests has failed:\n{content}")
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    if any(parts.of(fork.number).rest for fork in forks):
        raise session.Interrupted("all forks have died")


def _report(session: pytest.Session, reports: list[dict[str, Any]]) -> None:
    hook = session.config.hook
    for data in reports:
        report = hook.pytest_report_from_serializable(config=session.config, data=data)
        if report.when == "setup":
            hook.pytest_runtest_logstart(nodeid=report.nodeid, location=report.location)
        hook.pytest_runtest_logreport(report=report)
        if report.when == "teardown":
            hook.pytest_runtest_logfinish(nodeid=report.nodeid, location=report.location)


def _pass_on(
    session: pytest.Session,
    message: Warning | str,
    category: type[Warning],
    filename: str,
    line: int,
    **facts: Any,
) -> None:
    warning = warnings.WarningMessage(message, category, filename, line)
    session.config.hook.pytest_warning_recorded.call_historic(
        kwargs={"warning_message": warning} | facts
    )


def _report_death(session: pytest.Session, parts: Parts, fork: Fork) -> None:
    status = fork.end()
    at = parts.give_back(fork.number)
    if at == _NONE:
        raise RuntimeError(f"a fork of the tests has ended with status {status} beside its tests")
    item = session.items[at]
    report = pytest.TestReport(
        nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed",
        longrepr=f"the process of this test ended with status {status}", when="call",
    )  # fmt: skip
    session.config.hook.pytest_runtest_logreport(report=report)


# In a fork


class _Telling:
    """The plugin of a fork: what is reported there is told to its parent, a message a test."""

    def __init__(self, config: pytest.Config, messages: Connection) -> None:
        self._config = config
        self._messages = messages
        self._reports: list[dict[str, Any]] = []

    def tell(self, kind: str, content: Any) -> None:
        self._messages.send_bytes(pickle.dumps((kind, content)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def pytest_runtest_logfinish(self) -> None:
        self.tell("tests", self._reports)
        self._reports = []

    def pytest_warning_recorded(
        self,
        warning_message: warnings.WarningMessage,
        when: str,
        nodeid: str,
        location: tuple[str, int, str] | None,
    ) -> None:
        content = {
            "message": str(warning_message.message), "category": warning_message.category,
            "filename": warning_message.filename, "line": warning_message.lineno,
            "when": when, "nodeid": nodeid, "location": location,
        }  # fmt: skip
        try:
            self.tell("warning", content)
        except (pickle.PicklingError, AttributeError, TypeError):  # a category of a function
            self.tell("warning", content | {"category": UserWarning})


def _be(number: int, session: pytest.Session, parts: Parts, messages: Connection) -> None:
    """Be a fork; never returns."""
    os.environ[FORK] = str(number)
    config = session.config
    telling = _Telling(config, messages)
    status = 1
    try:
        factory = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.mktemp(f"fork-{number}", numbered=False)
        factory._next_number = {}
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(telling, "telling")
        _capture_alone(config.pluginmanager.getplugin("capturemanager"))
        _run(number, session, parts)
        telling.tell("done", None)
        status = 0
    except BaseException:  # noqa: BLE001  # the parent says so
        telling.tell("fault", traceback.format_exc())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _capture_alone(manager: Any) -> None:
    """Put files of this fork in place of those that all forks would write what tests print to.

    The streams stay: a module may have taken sys.stderr when it was imported.
    """
    capturing = manager._global_capturing
    for stream in (capturing.out, capturing.err):
        if isinstance(stream, FDCapture):
            with tempfile.TemporaryFile() as own:
                os.dup2(own.fileno(), stream.tmpfile.fileno())


def _run(number: int, session: pytest.Session, parts: Parts) -> None:
    try:
        while (part := parts.take(number)).current != _NONE:
            item = session.items[part.current]
            nextitem = session.items[part.following] if part.following != _NONE else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    finally:
        session._setupstate.teardown_exact(None)

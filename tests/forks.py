"""Run the tests in forks of the process that has collected them: ``--forks=4``.

To import all modules of tests and make their items takes a quarter of a minute of computing, and
each worker of pytest-xdist does it again; here none does. Each fork begins with an equal part of
the tests, in their order. A fork whose part is empty gets half of the longest other part, from its
end. A fork that dies fails the test that it ran, and the others run what it had left.

The parent has the parts. A fork has the test that it runs and the one after it, whose fixtures
pytest compares; it reports a test, and gets another.

A fork has its own database, say; what all forks share is in `common_folder`. Folders of tests lie
in memory where there is enough of it, and go when their test has passed.
"""

import gc
import os
import pickle
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.capture import FDCapture

from tests.servers.folders import data_folder

#: In the environment of a fork: its number.
FORK: Final = "SMARTCRAWL_TEST_FORK"
_SECONDS: Final = 5.0  #: between two checks whether a fork without messages is alive
_ROOM: Final = 2 << 30  #: bytes that are free in memory, at least, for folders of tests
_AHEAD: Final = 2  #: tests that a fork has: the one that it runs, and the next


class Parts:
    """The tests that no fork has yet, by their numbers, in a part for each fork."""

    def __init__(self, tests: int, forks: int) -> None:
        bounds = [tests * number // forks for number in range(forks + 1)]
        self._parts = [[*range(*pair)] for pair in pairwise(bounds)]

    def take(self, number: int) -> int | None:
        """Return the next test for a fork; None: there is none any more."""
        if not self._parts[number]:
            longest = max(self._parts, key=len)
            middle = len(longest) // 2
            self._parts[number] = longest[middle:]
            del longest[middle:]
        return self._parts[number].pop(0) if self._parts[number] else None

    def give_back(self, number: int, tests: Sequence[int]) -> None:
        """Leave to the others what a fork that died had not run."""
        self._parts[number][:0] = tests

    @property
    def rest(self) -> int:
        return sum(map(len, self._parts))


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
    with _folders_in_memory(session):
        forks = _start(session, count)
        try:
            _follow(session, Parts(len(session.items), count), forks)
        finally:
            for fork in forks:
                fork.end()
    return True


@contextmanager
def _folders_in_memory(session: pytest.Session) -> Iterator[None]:
    """Keep the folders of tests in memory meanwhile, unless the command line names another place.

    On a disk, each commit of a registry waits for it, and the system works more. One of a test that
    failed goes, too: run it alone to see it.
    """
    factory: Any = session.config._tmp_path_factory  # type: ignore[attr-defined]
    with data_folder() as folder:
        place = os.statvfs(folder)
        is_small = place.f_bavail * place.f_frsize < _ROOM
        if is_small or place.f_flag & os.ST_NOEXEC or session.config.option.basetemp:
            yield
            return
        factory._basetemp, before = folder, factory._basetemp
        factory._retention_policy, policy = "failed", factory._retention_policy
        try:
            yield
        finally:
            factory._basetemp, factory._retention_policy = before, policy


# In the process that has collected the tests


class Fork:
    """A process that runs tests, as its parent sees it."""

    def __init__(self, number: int, pid: int, messages: Connection) -> None:
        self.number = number
        self.messages = messages
        self.tests: list[int] = []  #: that it runs, or runs next
        self._pid = pid
        self._status: int | None = None

    def top_up(self, parts: Parts) -> None:
        """Send the tests that it runs next; an empty list lets it end."""
        found = []
        while len(self.tests) + len(found) < _AHEAD:
            if (test := parts.take(self.number)) is None:
                break
            found.append(test)
        self.tests += found
        with suppress(OSError):  # it has died, which its end of the messages shows
            self.messages.send(found)

    def has_ended(self) -> bool:
        """Whether the process has ended, and all of its messages are read."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status is not None and not self.messages.poll()

    def end(self) -> int:
        """Wait for the end of the process, and read nothing more of it; return its status."""
        self.messages.close()
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status


def _start(session: pytest.Session, count: int) -> list[Fork]:
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    sys.stdout.flush()
    sys.stderr.flush()
    gc.freeze()  # no fork looks at what all of them share
    forks: list[Fork] = []
    for number in range(count):
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            for messages in (ours, *(fork.messages for fork in forks)):
                messages.close()  # else no fork would notice the end of their parent
            _be(number, session, theirs)
        theirs.close()
        forks.append(Fork(number, pid, ours))
    return forks


def _follow(session: pytest.Session, parts: Parts, forks: Sequence[Fork]) -> None:
    """Send tests to the forks and pass on their reports, until all of them have ended."""
    running = {fork.messages: fork for fork in forks}
    for fork in forks:
        fork.top_up(parts)
    reported = 0
    while running:
        ready = wait([*running], timeout=_SECONDS)
        for messages in ready or [m for m, fork in running.items() if fork.has_ended()]:
            fork = running[messages]
            try:
                kind, content = pickle.loads(messages.recv_bytes()) if ready else ("died", None)
            except (EOFError, OSError):  # also within a message
                kind, content = "died", None
            if kind == "reports":
                item = session.items[fork.tests.pop(0)]
                fork.top_up(parts)  # first, so that the fork need not wait
                _report(session, item, content)
                reported += 1
            elif kind == "warning":
                _pass_on(session, **content)
            else:
                del running[messages]
                if kind == "died":
                    _report_death(session, parts, fork)
                    reported += 1
                elif kind == "fault":
                    raise RuntimeError(f"a fork of the tests has failed:\n{content}")
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    if parts.rest:
        raise session.Interrupted(f"all forks have died; {parts.rest} tests were not run")
    if reported != len(session.items):
        raise RuntimeError(f"{reported} of {len(session.items)} tests have reports")


def _report(session: pytest.Session, item: pytest.Item, found: list[dict[str, Any]]) -> None:
    hook = session.config.hook
    reports = [
        hook.pytest_report_from_serializable(config=session.config, data=data) for data in found
    ]
    if {report.nodeid for report in reports} != {item.nodeid}:
        raise RuntimeError(f"a fork of the tests has run {item.nodeid} and not reported it")
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


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
    if not fork.tests:
        raise RuntimeError(f"a fork of the tests has ended with status {status} beside its tests")
    current, *others = fork.tests
    parts.give_back(fork.number, others)
    item = session.items[current]
    report = pytest.TestReport(
        nodeid=item.nodeid, location=item.location, keywords={}, outcome="failed",
        longrepr=f"the process of this test ended with status {status}", when="call",
    )  # fmt: skip
    session.config.hook.pytest_runtest_logreport(report=report)


# In a fork


class _Reporting:
    """The plugin of a fork: it sends reports and warnings to the parent."""

    def __init__(self, config: pytest.Config, messages: Connection) -> None:
        self._config = config
        self._messages = messages
        self._reports: list[dict[str, Any]] = []

    def send(self, kind: str, content: Any) -> None:
        self._messages.send_bytes(pickle.dumps((kind, content)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def send_reports(self) -> None:
        """Send the reports of a test in one message."""
        self.send("reports", self._reports)
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
            self.send("warning", content)
        except (pickle.PicklingError, AttributeError, TypeError):  # a category of a function
            self.send("warning", content | {"category": UserWarning})


def _be(number: int, session: pytest.Session, messages: Connection) -> None:
    """Be a fork; never returns."""
    os.environ[FORK] = str(number)
    config = session.config
    reporting = _Reporting(config, messages)
    status = 1
    try:
        factory = config._tmp_path_factory  # type: ignore[attr-defined]
        factory._basetemp = factory.mktemp(f"fork-{number}", numbered=False)
        factory._next_number = {}
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(reporting, "reporting")
        _capture_alone(config.pluginmanager.getplugin("capturemanager"))
        _run(session, reporting, messages)
        reporting.send("done", None)
        status = 0
    except BaseException:  # noqa: BLE001  # the parent says so
        reporting.send("fault", traceback.format_exc())
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


def _run(session: pytest.Session, reporting: _Reporting, messages: Connection) -> None:
    tests: list[int] = messages.recv()
    try:
        while tests:
            item, *following = (session.items[test] for test in tests)
            nextitem = following[0] if following else None
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            reporting.send_reports()
            tests = [*tests[1:], *messages.recv()]
    finally:
        session._setupstate.teardown_exact(None)

"""Plugin of pytest for tests/gate.py: which tests run, in which order, what each takes and marks.

SMARTCRAWL_GATE_LOG names a file, or a folder for several workers: a JSON object a line. `start` is
written before a test, so that a reader can see which one does not end. SMARTCRAWL_GATE_TESTS names
a file with the ids of the tests to run, one a line, in their order.

A copy of this file is in the checkout that is measured: it imports nothing of this project but the
marks (hits.py), where there are any.
"""

import json
import os
import resource
import time
from pathlib import Path

import pytest

try:
    from smartcrawl import _gate_hits as hits
except ImportError:
    hits = None

LOG = os.environ.get("SMARTCRAWL_GATE_LOG", "")
TESTS = os.environ.get("SMARTCRAWL_GATE_TESTS", "")
FIXTURE = "SMARTCRAWL_GATE_FIXTURE"  #: as in hits.py


def seconds_of(pid):
    """Return the CPU seconds of all processes below one, as far as they are not waited for."""
    return sum(of_process for _, of_process in below(pid))


def below(pid):
    """Yield the processes below one, with the CPU seconds of each and of those it waited for."""
    tick = os.sysconf("SC_CLK_TCK")
    level = [str(pid)]
    while level:
        parent = level.pop()
        try:
            threads = os.listdir(f"/proc/{parent}/task")
        except OSError:
            continue
        for thread in threads:
            try:
                children = Path(f"/proc/{parent}/task/{thread}/children").read_text().split()
            except OSError:
                continue
            for child in children:
                try:
                    text = Path(f"/proc/{child}/stat").read_text(errors="replace")
                except OSError:
                    continue
                facts = text.rpartition(")")[2].split()
                yield int(child), sum(map(int, facts[11:15])) / tick
                level.append(child)


def used():
    """Return the CPU seconds of this process and of all below it, ended ones, too."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
    return total + seconds_of(os.getpid())


class Log:
    """What becomes of each test, as it goes."""

    def __init__(self):
        path = Path(LOG)
        if path.is_dir():
            path /= f"{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}-{os.getpid()}.jsonl"
        self._file = path.open("a", encoding="utf-8", buffering=1)
        self._results = {}
        self._wide = set()
        self._shared = [0.0, 0.0]
        if hits is not None:
            hits.own()
            self._current = Path(hits.FOLDER) / f"current.{os.getpid()}"

    def write(self, **record):
        self._file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def note(self, name):
        """Say what runs, for processes whose environment does not."""
        if hits is not None:
            part = self._current.with_suffix(f".{os.getpid()}.part")
            part.write_text(name, encoding="utf-8")
            part.rename(self._current)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item):
        self._results, self._wide, self._shared = {}, set(), [0.0, 0.0]
        self.note(item.nodeid)
        self.write(start=item.nodeid)
        began, cpu = time.monotonic(), used()
        try:
            return (yield)
        finally:
            wall, cpu = time.monotonic() - began, used() - cpu
            self.write(
                test=item.nodeid,
                outcome=self._outcome(),
                wall=round(max(0.0, wall - self._shared[0]), 4),
                cpu=round(max(0.0, cpu - self._shared[1]), 4),
                hits=[] if hits is None else hits.taken(),
                wide=sorted(self._wide),
            )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item):
        closure = getattr(item, "_fixtureinfo", None)
        listed = [] if closure is None else [d[-1] for d in closure.name2fixturedefs.values() if d]
        listed += getattr(getattr(item, "_request", None), "_fixture_defs", {}).values()
        self._wide |= {_fixture(one) for one in listed if one.scope != "function"}
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef, request):
        if fixturedef.scope == "function":
            return (yield)
        name = _fixture(fixturedef)
        mine = [] if hits is None else hits.taken()
        around = os.environ.get(FIXTURE)
        os.environ[FIXTURE] = name
        self.note(name)
        began, cpu = time.monotonic(), used()
        try:
            return (yield)
        finally:
            found = [] if hits is None else hits.taken()
            wall, cpu = time.monotonic() - began, max(0.0, used() - cpu)
            self.write(fixture=name, hits=found, wall=round(wall, 4), cpu=round(cpu, 4))
            if around is None:
                del os.environ[FIXTURE]
                self._shared = [self._shared[0] + wall, self._shared[1] + cpu]
            else:
                os.environ[FIXTURE] = around
            current = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
            self.note(around or current)
            if hits is not None:
                hits.hit(*mine)

    def pytest_runtest_logreport(self, report):
        self._results[report.when] = report.outcome

    def pytest_collectreport(self, report):
        if report.failed:
            self.write(collect=report.nodeid)

    def _outcome(self):
        if "failed" in self._results.values():
            return "failed"
        return "skipped" if "skipped" in self._results.values() else "passed"


def _fixture(definition):
    return f"fixture {definition.argname} of {definition.baseid}"


class Choice:
    """Run the listed tests alone, in their order."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        listed = Path(TESTS).read_text(encoding="utf-8").split("\n")
        places = {name: place for place, name in enumerate(listed) if name}
        left = [item for item in items if item.nodeid not in places]
        config.hook.pytest_deselected(items=left)
        chosen = [item for item in items if item.nodeid in places]
        items[:] = sorted(chosen, key=lambda item: places[item.nodeid])


def pytest_configure(config):
    if TESTS:
        config.pluginmanager.register(Choice(), "gate-choice")
    controls = hasattr(config.option, "dist") and config.option.dist != "no"
    works = hasattr(config, "workerinput")
    if LOG and (works or not controls):
        config.pluginmanager.register(Log(), "gate-log")

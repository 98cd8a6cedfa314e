"""Try mutants: write one into a copy of the checkout, and run the tests that come by it.

Each batch of tests is a pytest of its own, below this process, which takes in what it leaves behind
(PR_SET_CHILD_SUBREAPER): so the CPU of all is counted, and all can be ended by their numbers.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from itertools import chain, repeat
from pathlib import Path

from tests.gauge.plugin import below

CAP = 120.0  #: seconds of CPU for the tests of one mutant, with all their processes
TIMES = 10  #: a test that takes so many times what it took is in a loop …
LOOP_SECONDS = 20.0  #: … if it took at least so much CPU,
SHARED_SECONDS = 40.0  #: and so much more where shared servers work beside it, or start;
HANG_SECONDS = 300.0  #: or so much time, on a busy machine
STEADY = 0.3  #: seconds of a test that is run once more when it fails, as it may be unsteady
#: Tests and CPU seconds of the first batches; few cheap ones spare the start of servers.
BATCHES = ((12, 2.0), (200, 20.0))
_SUBREAPER = 36
_NOTHING, _FAILED, _NO_TESTS = 0, 1, 5  #: exit statuses of pytest


@dataclass
class Verdict:
    """What became of one mutant, or of one batch of its tests."""

    noticed: bool
    how: str
    test: str = ""
    ran: int = 0
    cpu: float = 0.0


class OverError(Exception):
    """The tests have used all their time."""


class Trials:
    """A copy of a checkout in which mutants are tried, one after the other."""

    def __init__(self, copy, record, folder, options=()):
        self._copy = copy
        self._record = record
        self._folder = folder
        self._options = options  #: of pytest
        self._temporary = Path(tempfile.gettempdir()) / f"gate-{os.getpid()}"
        self._sound: dict[str, bool] = {}  #: whether tests pass alone, without a mutant
        self._stamp = int(time.time())

    def begin(self):
        """Be what takes in processes without a parent, and ends them by SIGTERM."""
        self._folder.mkdir(parents=True, exist_ok=True)
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
        signal.signal(signal.SIGTERM, self._leave)

    def attempt(self, path, text, tests):
        """Put a mutant in the place of a module while its tests run; return the verdict."""
        original = path.read_text(encoding="utf-8")
        self._with_mutant = partial(self._write, path, text)
        self._without_mutant = partial(self._write, path, original)
        self._with_mutant()
        try:
            return self._attempt(tests)
        finally:
            self._without_mutant()
            shutil.rmtree(self._temporary, ignore_errors=True)

    def _write(self, path, text):
        """Write a module; its time differs each time, so that no compiled one is taken for it."""
        path.write_text(text, encoding="utf-8")
        self._stamp += 2
        os.utime(path, (self._stamp, self._stamp))

    def _attempt(self, tests):
        begun = self._used()
        left, unsteady, ran = list(tests), [], 0
        sizes = chain(BATCHES, repeat(None))
        try:
            while left:
                batch = self._batch(left, next(sizes))
                verdict = self._run(batch, begun + CAP)
                ran += verdict.ran
                if not verdict.noticed:
                    left = left[len(batch) :]
                    continue
                seconds = self._used() - begun
                if verdict.how == "failed" and not self._is_steady(verdict.test):
                    unsteady.append(verdict.test)
                    begun += self._used() - begun - seconds  # what that took is not the mutant's
                    left = left[left.index(verdict.test) + 1 :]
                    continue
                verdict.ran, verdict.cpu = ran, seconds
                return verdict
        except OverError:
            return Verdict(False, "time is up", "", ran, self._used() - begun)
        how = f"unsteady: {unsteady[0]}" if unsteady else "passed"
        return Verdict(False, how, "", ran, self._used() - begun)

    def _batch(self, left, size):
        """Return the tests for one pytest: of a size, at least one; None: all."""
        if size is None:
            return left
        most, seconds = size
        for place, name in enumerate(left[:most]):
            seconds -= self._record.tests[name].cpu + self._record.fixtures_cost(name)
            if seconds < 0:
                return left[: max(place, 1)]
        return left[:most]

    def _is_steady(self, name):
        """Return whether a test fails once more, and passes without the mutant.

        A quick one is believed.
        """
        took = self._record.tests.get(name)
        if took is None or took.wall < STEADY:
            return True
        if self._passes(name):
            return False
        if name not in self._sound:
            self._without_mutant()
            self._sound[name] = self._passes(name)
            self._with_mutant()
        return self._sound[name]

    def _passes(self, name):
        """Return whether a test passes alone."""
        try:
            return not self._run([name], self._used() + CAP).noticed
        except OverError:
            return False

    def _run(self, tests, until):
        """Run tests up to the first that fails; raise OverError when the time is up."""
        listed, log = self._folder / "tests", self._folder / "log.jsonl"
        listed.write_text("\n".join(tests), encoding="utf-8")
        log.write_text("")
        files = list(dict.fromkeys(name.partition("::")[0] for name in tests))
        command = [
            self._copy / ".venv/bin/python", "-m", "pytest", "-q", "-x", "--no-header",
            "-p", "tests.gate_plugin", "-p", "no:cacheprovider",
            "--basetemp", self._temporary, *self._options, *files,
        ]  # fmt: skip
        with (self._folder / "output").open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._copy,
                env=environment(self._copy, log, listed),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        try:
            return self._watch(process, Progress(log, self._record), until)
        finally:
            self._end()

    def _watch(self, process, progress, until):
        while (status := self._reap(process)) is None:
            time.sleep(0.1)
            used = self._used()
            progress.read(used)
            if how := progress.stuck(used):
                return Verdict(True, how, progress.test, progress.ran)
            if used > until:
                raise OverError
        progress.read(self._used())
        if status == _NOTHING:
            return Verdict(False, "passed", "", progress.ran)
        if status == _FAILED and progress.failed:
            return Verdict(True, "failed", progress.failed, progress.ran)
        if status == _NO_TESTS:
            return Verdict(False, "no such tests", "", progress.ran)
        said = (self._folder / "output").read_text(errors="replace").strip().splitlines()
        why = " ".join(said[-1:])[:200].replace("\t", " ")
        return Verdict(True, f"pytest ended with {status}: {why}", progress.test, progress.ran)

    def _used(self):
        """Return the CPU seconds of all that this process has started so far."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        running = sum(seconds for _, seconds in below(os.getpid()))
        return ended.ru_utime + ended.ru_stime + running

    def _reap(self, process):
        """Take in what has ended; return the status of pytest when it has."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return process.returncode
            if pid == 0:
                return process.returncode
            if pid == process.pid:
                process.returncode = os.waitstatus_to_exitcode(status)

    def _end(self):
        """End everything that is left below this process."""
        deadline = time.monotonic() + 30
        while (left := [pid for pid, _ in below(os.getpid())]) and time.monotonic() < deadline:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
            time.sleep(0.02)

    def _leave(self, *_):
        self._end()
        raise SystemExit("ended by SIGTERM")


class Progress:
    """What the log of the plugin says so far."""

    def __init__(self, log, record):
        self._log = log
        self._record = record
        self._place = 0
        self._began = (0.0, 0.0)
        self.test = self.failed = ""
        self.ran = 0

    def read(self, used):
        """Read what is new."""
        with self._log.open(encoding="utf-8") as file:
            file.seek(self._place)
            lines, whole, _ = file.read().rpartition("\n")
        self._place += len((lines + whole).encode())
        for line in lines.splitlines():
            found = json.loads(line)
            if "start" in found:
                self.test, self._began = found["start"], (time.monotonic(), used)
            elif "test" in found:
                self.ran += 1
                if found["outcome"] == "failed":
                    self.failed = self.failed or found["test"]

    def stuck(self, used):
        """Return how the test that runs does not end, or nothing."""
        took = self._record.tests.get(self.test)
        if took is None:
            return ""
        shared = SHARED_SECONDS if took.wide else 0
        if used - self._began[1] > max(TIMES * took.cpu, LOOP_SECONDS) + shared:
            return "loops"
        if time.monotonic() - self._began[0] > max(TIMES * took.wall, HANG_SECONDS):
            return "hangs"
        return ""


def environment(copy, log, listed=""):
    """Return the environment of a pytest in a copy of the checkout."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "PYTHONPATH")
    }
    return kept | {
        "CI": "true",
        "SMARTCRAWL_REQUIRE_SERVERS": "1",
        "KILL_SEED": "47",
        "CHAOS_SEED": "47",
        "PATH": f"{copy}/.venv/bin:{os.environ['PATH']}",
        "SMARTCRAWL_GATE_LOG": str(log),
        "SMARTCRAWL_GATE_TESTS": str(listed),
    }


def path_of(copy, module):
    """Return the file of a module."""
    return Path(copy) / f"smartcrawl/{module.replace('.', '/')}.py"

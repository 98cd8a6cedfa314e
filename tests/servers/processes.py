"""Processes of servers: on which port, by which user, and how they end, each by its number."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers.cache import UnavailableError

_STOP_SECONDS = 5
_END_SECONDS = 30
_FIRST_PORT = 10_000
_NOBODY = 65534
_SAID = 3_000  #: characters
#: A process that is to end with its parent ends with the thread that started it: this one stays
#: until the interpreter ends, whichever thread of a test asks for a server.
_STARTER = ThreadPoolExecutor(1, "servers")


class PortTakenError(RuntimeError):
    """Between choosing a port and listening, another process has taken it."""


class Server(ABC):
    """A server that can be killed and started again, on the same port and with the same data."""

    name: str
    _ending = signal.SIGTERM
    _start_seconds = 30

    def __init__(self, folder: Path) -> None:
        self.port = 0
        self._folder = folder  #: what it keeps, and what it says in the file `output`
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of the first process; raises RuntimeError where none runs."""
        if self._process is None or not self.running:
            raise RuntimeError(f"{self.name} does not run: start() starts it")
        return self._process.pid

    @property
    def output(self) -> str:
        """What it said since its last start."""
        return (self._folder / "output").read_text(errors="replace")

    def processes(self) -> list["Relative"]:
        """All that belong to it, itself first; raises RuntimeError where it does not run."""
        facts = _facts(self.pid)
        own = [Relative(self.pid, facts[19])] if facts else []
        return own + descendants(self.pid)

    def begin(self, port: int | None) -> None:
        """Start for the first time; without `port`, a free one is taken."""
        for attempt in range(5):
            self.port = port or free_port()
            try:
                self.start()
                break
            except PortTakenError:
                if port is not None or attempt == 4:
                    raise

    def start(self) -> None:
        """Start, and return when it answers; nothing happens where it runs.

        Raises:
            PortTakenError: another process listens on the port.
            RuntimeError: it ended, or did not answer in time; the message is what it said.
        """
        if self.running:
            return
        environment = os.environ | self._environment()
        with (self._folder / "output").open("wb") as output:
            self._process = _STARTER.submit(
                subprocess.Popen,
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self._folder,
                start_new_session=True,  # Ctrl-C is for the tests, and they end their servers
            ).result()
        try:
            self._await()
        except BaseException:
            self.kill()
            raise

    def _await(self) -> None:
        deadline = time.monotonic() + self._start_seconds
        while not self._answers():
            if self.running and time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            kind = PortTakenError if "ddress already in use" in self.output else RuntimeError
            raise kind(f"{self.name} did not start on port {self.port}: {self.output}")

    def stop(self) -> None:
        """End it in order, by force if it does not end by itself."""
        if self._process is None or not self.running:
            return
        family = self.processes()
        self._process.send_signal(self._ending)
        self._process.send_signal(signal.SIGCONT)  # a test may have halted it
        deadline = time.monotonic() + _END_SECONDS
        # One that only launches the server may be gone before it.
        while self.running or any(map(alive, family)):
            if time.monotonic() > deadline:
                self.kill()
                break
            time.sleep(0.01)
        _end(family)

    def kill(self) -> None:
        """End it at once with all its processes by SIGKILL, as a crash of the machine does."""
        if self._process is None or not self.running:
            return
        end_family(self._process)

    def restart(self) -> None:
        """Stop it in order and start it again."""
        self.stop()
        self.start()

    @abstractmethod
    def _command(self) -> Sequence[str | Path]:
        """What starts it in the foreground, on `self.port`."""

    @abstractmethod
    def _answers(self) -> bool:
        """Whether this process, and not another one on the port, is ready."""

    def _environment(self) -> Mapping[str, str]:
        """Variables besides those of the tests."""
        return {}


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server, by force if it does not end by itself."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port on loopback where nobody listens, outside of those that connections start from.

    While a server is down nobody is given its port, and a client that asks for it does not reach
    itself.
    """
    ports = _ports()
    while True:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", secrets.choice(ports)))
            return probe.getsockname()[1]


def _ports() -> range:
    """The ports to choose from."""
    try:
        outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        first, last = map(int, outgoing.split())
    except OSError:
        first, last = 49_152, 65_535  # as IANA has it
    below, above = range(_FIRST_PORT, first), range(last + 1, 65_536)
    return max(below, above, range(1), key=len)  # 0: the system chooses


def with_parent(ending: signal.Signals) -> list[str]:
    """What stands before a command that is to get `ending` when the tests are killed."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", ending.name.removeprefix("SIG")] if program else []


@cache
def unprivileged() -> tuple[str, ...]:
    """What stands before a command that must not be run by root; () where we are not root.

    In a user namespace the same files belong to another number. Where there are none it runs as
    nobody, who must be able to reach what it needs (see `hand_over`).
    """
    if os.geteuid() != 0:
        return ()
    namespace = ("unshare", "-U", "--map-user=1000", "--map-group=1000")
    with suppress(OSError):
        if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode == 0:
            return namespace
    return ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")


def hand_over(folder: Path) -> None:
    """Give a folder to the user that `unprivileged` commands run as."""
    if "setpriv" in unprivileged()[:1]:
        os.chown(folder, _NOBODY, _NOBODY)


def reachable(path: Path) -> None:
    """Raise UnavailableError where the user of `unprivileged` commands cannot read `path`."""
    done = subprocess.run([*unprivileged(), "test", "-r", path], check=False)
    if done.returncode:
        raise UnavailableError(
            f"it refuses root, and no other user can read {path}: "
            "let SMARTCRAWL_TEST_CACHE name a folder that all may enter"
        )


def run_whole(command: Sequence[str | Path], seconds: float) -> None:
    """Run a command that starts others; none of them is left when it fails or takes too long.

    Raises:
        UnavailableError: it failed; the message is the end of what it said.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    except BaseException:
        end_family(process)
        raise
    if process.returncode:
        raise UnavailableError(f"{Path(command[0]).name} failed: {said.strip()[-_SAID:]}")


# Who belongs to whom


class Relative(NamedTuple):
    """A process below another one; its number alone may be given to a new one."""

    pid: int
    born: str  #: ticks since boot


def descendants(pid: int) -> list[Relative]:
    """The processes below `pid`, as /proc tells them; none on a system without it."""
    children: dict[int, list[Relative]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        if facts := _facts(int(entry.name)):
            children.setdefault(int(facts[1]), []).append(Relative(int(entry.name), facts[19]))
    found: list[Relative] = []
    level = [pid]
    while level:
        below = [child for parent in level for child in children.get(parent, ())]
        found += below
        level = [child.pid for child in below]
    return found


def end_family(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all below it, and wait until they are gone."""
    # Held first: it could start another one after they were counted.
    process.send_signal(signal.SIGSTOP)
    while state_of(process.pid) not in ("T", "Z", None):
        time.sleep(0.001)
    family = descendants(process.pid)
    process.kill()
    process.wait()
    _end(family)


def alive(relative: Relative) -> bool:
    """Whether it runs: not gone, not waiting to be buried, and not another one of its number."""
    facts = _facts(relative.pid)
    return facts is not None and facts[19] == relative.born and facts[0] not in "ZX"


def _end(family: Sequence[Relative]) -> None:
    """Kill what is left, and wait until it is gone."""
    for relative in family:
        if alive(relative):
            with suppress(ProcessLookupError):
                os.kill(relative.pid, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while left := [relative for relative in family if alive(relative)]:
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes {left} do not end")
        time.sleep(0.005)


def state_of(pid: int) -> str | None:
    """The letter of proc(5) for what a process does, as T for one that stands still."""
    facts = _facts(pid)
    return facts[0] if facts else None


def _facts(pid: int) -> list[str] | None:
    """The columns of /proc/PID/stat from the state on: a name before them may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None

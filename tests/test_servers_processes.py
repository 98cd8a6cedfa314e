"""The processes, ports and folders of the tests' servers: none of them is left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from tests import servers
from tests.servers import Server, UnavailableError, folders, processes
from tests.servers.elastic import default_version
from tests.servers.processes import Relative, alive, descendants, free_port

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
_END_SECONDS = 30

#: Starts a server for ever, in a thread that ends at once.
OWNER = """\
import sys, threading
from pathlib import Path
from tests import servers
from tests.servers import folders

folders._MEMORY = Path(sys.argv[2])
context = getattr(servers, sys.argv[1])()
thread = threading.Thread(target=lambda: print(context.__enter__().pid, flush=True))
thread.start()
thread.join()
sys.stdin.read()
"""

LOOKUPS = {
    "postgres": servers.postgres_lookup,
    "redis_server": servers.redis_lookup,
    "elasticsearch": lambda: servers.elasticsearch_lookup(default_version()),
}

#: Is gone at SIGTERM before the server that it started has ended in order.
LAUNCHER = """\
(trap 'sleep 0.3; echo closed; exit' TERM; echo below; while :; do sleep 0.05; done) &
trap "kill -TERM $!; exit 7" TERM; echo above
while :; do sleep 0.05; done
"""


class Launched(Server):
    """A server of two processes that listens nowhere."""

    name = "launched"
    _start_seconds = 2

    def __init__(self, folder: Path, script: str = LAUNCHER) -> None:
        super().__init__(folder)
        self._script = script

    def _command(self) -> Sequence[str]:
        return ["sh", "-c", self._script]

    def _answers(self) -> bool:
        return {"above", "below"} <= set(self.output.split())


def all_end(processes: list[Relative]) -> bool:
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        if not any(map(alive, processes)):
            return True
        time.sleep(0.02)
    return False


@contextmanager
def owner(name: str) -> Iterator[subprocess.Popen[str]]:
    """A process that starts a server, then waits to be killed; it prints the server's number."""
    found = LOOKUPS[name]()
    if isinstance(found, UnavailableError):
        servers.absent(f"{name} is not available: {found}")
    with folders.data_folder() as memory:  # what the killed one leaves behind
        process = subprocess.Popen(
            [sys.executable, "-c", OWNER, name, memory],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"SMARTCRAWL_REQUIRE_SERVERS": "1"},
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@pytest.mark.parametrize("name", ["postgres", "redis_server"])
def test_server_ends_when_the_tests_are_killed_and_not_before(name):
    with owner(name) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        processes = descendants(tests.pid)
        assert pid in [each.pid for each in processes]
        assert all(map(alive, processes))  # though the thread that asked for them is gone
        tests.kill()
        assert all_end(processes)


@pytest.mark.long
def test_elasticsearch_ends_when_the_tests_are_killed_while_it_starts():
    def commands(pid: int) -> str:
        lines = []
        for each in descendants(pid):
            with suppress(OSError):  # it may end at any time
                lines.append(Path(f"/proc/{each.pid}/cmdline").read_text())
        return " ".join(lines)

    with owner("elasticsearch") as tests:
        deadline = time.monotonic() + _END_SECONDS
        while "org.elasticsearch.bootstrap" not in commands(tests.pid):
            assert time.monotonic() < deadline
            assert tests.poll() is None
            time.sleep(0.05)
        processes = descendants(tests.pid)
        assert len(processes) > 1
        tests.kill()
        assert all_end(processes)


@pytest.mark.parametrize("start", [servers.postgres, servers.redis_server])
def test_halted_server_is_stopped_in_order(start: Callable):
    with start() as server:
        os.kill(server.pid, signal.SIGSTOP)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert server._process.returncode == 0  # not killed


def test_postgres_does_not_wait_for_its_clients_when_it_is_stopped():
    with servers.postgres() as server:
        client = psycopg.connect(server.url())
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 10
        assert server._process.returncode == 0
    client.close()


@pytest.mark.parametrize("start", [servers.postgres, servers.redis_server])
def test_server_is_gone_after_a_failing_test(start: Callable, server_memory):
    started = start()
    server = started.__enter__()
    processes = server.processes()
    failure = AssertionError("a test that fails")
    assert not started.__exit__(AssertionError, failure, None)  # nor is the failure hidden
    assert not any(map(alive, processes))
    assert not list(server_memory.iterdir())
    with pytest.raises(RuntimeError, match="does not run"):
        _ = server.pid


def test_ports_are_those_that_no_connection_starts_from():
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    first, last = map(int, outgoing)
    with ThreadPoolExecutor(4) as workers:
        ports = set(workers.map(lambda _: free_port(), range(200)))
    assert len(ports) > 150
    assert not [port for port in ports if first <= port <= last or port < 1_024]


def test_folders_of_killed_tests_are_removed_and_those_in_use_are_not(server_memory, monkeypatch):
    monkeypatch.setattr(folders, "_GRACE_SECONDS", 0)
    left = server_memory / "smartcrawl-server-left"
    other = server_memory / "other"
    other.mkdir()
    with folders.data_folder() as used:
        (left / "data").mkdir(parents=True)
        with folders.data_folder() as second:
            assert not left.exists()
            assert used.exists()
            assert used != second
    assert list(server_memory.iterdir()) == [other]


def test_folder_that_was_just_made_is_left_alone(server_memory):
    young = server_memory / "smartcrawl-server-young"
    young.mkdir()
    with folders.data_folder():
        assert young.exists()


def test_stopped_server_may_outlive_its_launcher_until_it_has_ended_in_order(tmp_path):
    server = Launched(tmp_path)
    server.start()
    family = server.processes()
    assert len(family) > 1
    server.stop()
    assert server.output.endswith("closed\n")
    assert not any(map(alive, family))


def test_killed_server_is_killed_with_all_that_it_started(tmp_path):
    server = Launched(tmp_path)
    server.start()
    family = server.processes()
    server.kill()
    assert "closed" not in server.output
    assert not any(map(alive, family))


def test_server_that_does_not_end_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_END_SECONDS", 0.5)
    server = Launched(tmp_path, "trap '' TERM; echo above below; while :; do sleep 0.05; done")
    server.start()
    family = server.processes()
    server.stop()
    assert not any(map(alive, family))


def test_server_that_never_answers_is_ended_with_what_it_said(tmp_path):
    server = Launched(tmp_path, "echo not yet; sleep 60")
    with pytest.raises(RuntimeError, match="launched did not start on port 0: not yet"):
        server.start()
    assert not server.running


def test_server_is_started_once_and_out_of_reach_of_ctrl_c(tmp_path):
    server = Launched(tmp_path)
    server.start()
    pid = server.pid
    server.start()
    assert server.pid == pid
    assert os.getpgid(pid) != os.getpgid(0)
    server.stop()
    server.stop()


def test_port_that_was_taken_meanwhile_is_given_up_for_another(monkeypatch):
    with servers.redis_server() as first:
        ports = iter([first.port, first.port, free_port()])
        monkeypatch.setattr(processes, "free_port", lambda: next(ports))
        with servers.redis_server() as second:
            assert second.port != first.port
            assert next(ports, None) is None
        monkeypatch.setattr(processes, "free_port", lambda: first.port)
        with pytest.raises(servers.PortTakenError):
            servers.redis_server().__enter__()


def test_what_no_other_user_can_read_is_an_absence_with_its_remedy(tmp_path, monkeypatch):
    processes.reachable(tmp_path)
    monkeypatch.setattr(processes, "unprivileged", lambda: ("false",))
    with pytest.raises(UnavailableError, match="SMARTCRAWL_TEST_CACHE"):
        processes.reachable(tmp_path)


def test_fetch_that_takes_too_long_leaves_no_process(tmp_path):
    noted = tmp_path / "pid"
    command = ["sh", "-c", f"sleep 60 & echo $! > '{noted}'; wait"]
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run_whole(command, 0.5)
    state = Path(f"/proc/{int(noted.read_text())}/stat")
    assert not state.exists() or ") Z " in state.read_text()

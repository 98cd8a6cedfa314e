"""A source is crawled by one process at a time, and death frees it (ADR 134)."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.model.exceptions import RegistryError, RunHeldError
from smartcrawl.registry.database.lease import FileLease
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.registry.naming import name_source_row

ROOT = Path(__file__).resolve().parents[2]
SINCE = "2025-06-15T15:06:40+00:00"
HOLDER = """
import sys, time
from pathlib import Path
from smartcrawl.registry.database.lease import FileLease
lease = FileLease.take(Path(sys.argv[1]), "docs", "2025-06-15T15:06:40+00:00")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """A process that holds the lease of ``docs``."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_and_told_who_where_and_since_when(
    holder: "subprocess.Popen[str]", tmp_path: Path
):
    with pytest.raises(RunHeldError) as caught:
        FileLease.take(tmp_path, "docs", "2026-01-01T00:00:00+00:00")

    error = caught.value
    assert (error.source, error.pid, error.host, error.since) == (
        "docs", holder.pid, socket.gethostname(), SINCE,
    )  # fmt: skip
    for told in ("docs", str(holder.pid), socket.gethostname(), SINCE, f"kill -INT {holder.pid}"):
        assert told in str(error)


@pytest.mark.covers("RD-22")
def test_a_holder_that_is_killed_leaves_no_lease(holder: "subprocess.Popen[str]", tmp_path: Path):
    holder.send_signal(signal.SIGKILL)
    holder.wait(timeout=30)

    FileLease.take(tmp_path, "docs", SINCE).release()


@pytest.mark.usefixtures("holder")
def test_another_source_is_free(tmp_path: Path):
    with FileLease.take(tmp_path, "other", SINCE) as lease:
        assert lease.path.parent == tmp_path


def test_within_one_process_it_is_exclusive_until_it_is_released(tmp_path: Path):
    first = FileLease.take(tmp_path, "docs", SINCE)
    with pytest.raises(RunHeldError, match=str(os.getpid())):
        FileLease.take(tmp_path, "docs", SINCE)

    first.release()
    first.release()

    with FileLease.take(tmp_path, "docs", SINCE):
        pass
    FileLease.take(tmp_path, "docs", SINCE).release()


def test_a_refused_start_does_not_overwrite_who_holds_it(tmp_path: Path):
    with FileLease.take(tmp_path, "docs", SINCE) as lease:
        written = lease.path.read_bytes()
        with pytest.raises(RunHeldError):
            FileLease.take(tmp_path, "docs", "2030-01-01T00:00:00+00:00")

        assert lease.path.read_bytes() == written


def test_the_name_of_an_earlier_holder_does_not_show_through(tmp_path: Path):
    (tmp_path / "docs.lock").write_text("x" * 1_000)

    with FileLease.take(tmp_path, "docs", SINCE), pytest.raises(RunHeldError) as caught:
        FileLease.take(tmp_path, "docs", SINCE)

    assert (caught.value.pid, caught.value.since) == (os.getpid(), SINCE)


@pytest.mark.parametrize("written", [b"", b"\xff\xfe", b'{"pid": 1', b"[1]"])
def test_a_holder_that_is_just_writing_is_respected_all_the_same(tmp_path: Path, written: bytes):
    with FileLease.take(tmp_path, "docs", SINCE) as lease:
        lease.path.write_bytes(written)

        with pytest.raises(RunHeldError) as caught:
            FileLease.take(tmp_path, "docs", SINCE)

    assert (caught.value.pid, caught.value.host) == (0, "?")


@pytest.mark.parametrize("source", ["127.0.0.1:8801", "[::1]:8801", "docs@2.1", "../../escape"])
def test_any_name_of_a_source_stays_in_the_folder(tmp_path: Path, source: str):
    folder = tmp_path / "a" / "leases"

    with FileLease.take(folder, source, SINCE) as lease:
        assert lease.path.resolve().parent == folder


def test_a_lease_that_cannot_be_written_is_a_message(tmp_path):
    (tmp_path / "leases").write_text("in the way")

    with pytest.raises(RegistryError, match="leases"):
        FileLease.take(tmp_path / "leases", "docs", "2026-01-01T00:00:00+00:00")


def test_names_that_differ_never_share_a_lease(tmp_path):
    with (
        FileLease.take(tmp_path, "a:1", "now") as one,
        FileLease.take(tmp_path, "a_1", "now") as other,
    ):
        assert one.path != other.path


@pytest.mark.covers("R2-58")
@pytest.mark.parametrize("end", ["", "/:8080"])
def test_a_name_longer_than_that_of_a_file_has_a_lease_of_its_own(tmp_path: Path, end: str):
    first, second = (f"{'a' * 240}{'b' * 14}{last}{end}" for last in "cd")

    with FileLease.take(tmp_path, first, "T"):
        assert FileLease.is_held(tmp_path, first)
        assert not FileLease.is_held(tmp_path, second)
        with FileLease.take(tmp_path, second, "T"):
            (some, other) = FileLease.leased(tmp_path)
        with pytest.raises(RunHeldError):
            FileLease.take(tmp_path, first, "T")
    assert {len(some), len(other)} == {40 + 1 + 64}
    assert some != other
    with FileLease.take(tmp_path, some, "T"), FileLease.take(tmp_path, other, "T"):
        assert FileLease.is_held(tmp_path, first)  # as repairs take it
        assert FileLease.is_held(tmp_path, second)


def test_a_name_that_is_taken_leaves_the_source_free(tmp_path: Path):
    database = SqliteDatabase(tmp_path / "registry.db")
    database.open().close()
    lease = database.take("manual", SINCE)
    with pytest.raises(RunHeldError):
        name_source_row(database, "docs", "manual", SINCE)

    database.take("docs", SINCE).release()
    lease.release()

"""What a crawl writes is its user's alone, and is read without the right to write."""

import ctypes
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from smartcrawl.sources.private_files import narrow_private_data, narrow_private_file
from tests.crawls.bound_by_modes import OVERRIDES
from tests.crawls.commands import ROOT, Crawl, Result, Scrapy
from tests.site_server import Site, html

pytestmark = pytest.mark.long(but=1)

_OTHER = 65_534  #: "nobody" of most systems
_DROP = 24  #: PR_CAPBSET_DROP of prctl(2)
_READING = [
    ("search", "walrus"),
    ("search", "--nest-images", "walrus"),
    ("status",),
    ("registry",),
    ("registry", "--format", "jsonl"),
    ("runs",),
    ("hosts",),
    ("plan",),
    ("orphans",),
    ("deltamerge",),
    ("audit",),
    ("config",),
]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def modes(folder: Path) -> dict[str, int]:
    """The modes of a folder and of all below it."""
    below = {str(path.relative_to(folder)): mode(path) for path in folder.rglob("*")}
    return {".": mode(folder), **below}


@pytest.fixture
def pages(site: Site) -> Site:
    site.pages["/"] = html("Walrus", "/a")
    site.pages["/a"] = html("Another walrus")
    return site


@pytest.mark.sqlite
@pytest.mark.parametrize("umask", [0o000, 0o777], ids=["umask-000", "umask-777"])
def test_what_a_crawl_writes_is_its_users_alone(pages: Site, crawl: Crawl, umask: int):
    """Files, folders, SQLite's own files while it runs, a log and an export in there."""
    crawl.environment |= {"ARRANGED_BY": "tests.crawls.own_umask", "UMASK": f"{umask:o}"}
    data = crawl.data_dir
    words = ["crawl", "site", "-a", f"url={pages.url('/')}"]
    export = ["registry", "--format", "jsonl", "--output", str(data / "export.jsonl")]
    for arguments in (words, [*words, "-s", f"LOG_FILE={data / 'crawl.log'}"], export):
        crawl.run(*arguments)

    found = modes(data)
    assert {
        "registry.db",
        "crawl.log",
        "export.jsonl",
        "leases",
        "logs",
        "snapshots",
    } <= found.keys()
    assert "run 2 of" in (data / "logs" / "run-2.log").read_text()
    assert any(name.endswith(".html.gz") for name in found)
    assert any(name.endswith(".lock") for name in found)
    wrong = {
        name: oct(bits)
        for name, bits in found.items()
        if bits != (0o700 if (data / name).is_dir() else 0o600)
    }
    assert wrong == {}


@pytest.mark.sqlite
def test_files_beside_an_open_registry_are_private(pages: Site, crawl: Crawl):
    crawl(pages.url("/"))
    connection = apsw.Connection(str(crawl.registry))
    connection.execute("PRAGMA user_version").fetchall()
    connection.execute("BEGIN IMMEDIATE; ROLLBACK").fetchall()

    beside = [crawl.data_dir / f"registry.db-{end}" for end in ("wal", "shm")]
    assert [mode(path) for path in beside] == [0o600, 0o600]
    connection.close()


@pytest.mark.sqlite
@pytest.mark.parametrize("command", ["crawl", "status"])
def test_a_wider_folder_is_narrowed_when_it_is_opened(pages: Site, crawl: Crawl, command: str):
    crawl(pages.url("/"))
    (crawl.data_dir / "crawl.log").touch()
    for path in (crawl.data_dir, *crawl.data_dir.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)

    crawl(pages.url("/")) if command == "crawl" else crawl.run("status")

    assert mode(crawl.data_dir) == 0o700
    assert mode(crawl.data_dir / "registry.db") == mode(crawl.data_dir / "crawl.log") == 0o600
    assert mode(crawl.data_dir / "leases") == mode(crawl.data_dir / "snapshots") == 0o700
    assert {mode(lock) for lock in (crawl.data_dir / "leases").iterdir()} == {0o600}


def test_a_folder_that_serves_other_purposes_keeps_its_mode(tmp_path: Path):
    """DATA_DIR=/tmp shuts out no other program; the registry in it is private all the same."""
    (tmp_path / "home").mkdir()
    registry = tmp_path / "registry.db"
    registry.touch()
    for path in (tmp_path, registry, tmp_path / "home"):
        path.chmod(0o755)

    narrow_private_data(tmp_path)

    assert mode(tmp_path) == mode(tmp_path / "home") == 0o755
    assert mode(registry) == 0o700


def test_what_a_link_leads_to_keeps_its_mode(tmp_path: Path):
    target = tmp_path / "target"
    target.touch()
    target.chmod(0o644)
    (tmp_path / "link").symlink_to(target)

    narrow_private_file(tmp_path / "link")
    narrow_private_file(tmp_path / "missing")

    assert mode(target) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_a_folder_of_another_user_is_left_alone(pages: Site, crawl: Crawl):
    """Without an error: root, or a group, may work in it."""
    crawl(pages.url("/"))
    crawl.data_dir.chmod(0o775)
    os.chown(crawl.data_dir, _OTHER, _OTHER)

    crawl(pages.url("/"))

    assert mode(crawl.data_dir) == 0o775


@pytest.fixture
def shown(crawl: Crawl, pages: Site) -> Iterator[Path]:
    """A registry where another user may read it; pytest's own folders are root's alone."""
    crawl(pages.url("/"))
    folder = Path(tempfile.mkdtemp(prefix="smartcrawl-readonly-"))
    shutil.copytree(crawl.data_dir, folder / "data")
    yield folder / "data"
    for path in (folder, folder / "data"):
        path.chmod(0o755)
    shutil.rmtree(folder)


def bound_by_modes() -> None:
    """Let modes of files bind root, too, from the next exec on."""
    if os.geteuid() == 0:
        system = ctypes.CDLL(None, use_errno=True)
        for capability in OVERRIDES:
            if system.prctl(_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "cannot drop a capability")


def make_read_only(folder: Path) -> None:
    for path in (folder.parent, folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


def asked_to_read(ask: Scrapy, folder: Path, *arguments: str) -> Result:
    """Run a command as a user who may read and not write, in a fork (zygote.py)."""
    make_read_only(folder)
    environment = {"DATA_DIR": str(folder), "ARRANGED_BY": "tests.crawls.bound_by_modes"}
    return ask.run([*arguments], environment)


def reading(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a command as a user who may read and not write, in a process of its own."""
    make_read_only(folder)
    environment = {**os.environ, "DATA_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=bound_by_modes,
    )


@pytest.mark.sqlite
@pytest.mark.embedded
def test_reading_commands_need_no_right_to_write(shown: Path, ask: Scrapy, pages: Site):
    before = {path: path.read_bytes() for path in shown.rglob("*") if path.is_file()}

    for arguments in (*_READING, ("why", pages.url("/a"))):
        result = asked_to_read(ask, shown, *arguments)
        assert (result.status, result.err) == (0, ""), (arguments, result)

    assert "Another walrus" in reading(shown, "search", "another").stdout
    after = {path: path.read_bytes() for path in shown.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.sqlite
@pytest.mark.embedded
@pytest.mark.parametrize("shared", [True, False], ids=["with-shm", "without-shm"])
def test_what_is_in_the_wal_is_read_too(shown: Path, crawl: Crawl, pages: Site, shared: bool):
    """A crawl is at work, or was killed: its last pages are beside the file only."""
    registry = shown / "registry.db"
    connection = apsw.Connection(str(registry))
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("UPDATE content SET title = 'Newest title'").fetchall()
    kept = {
        path: path.read_bytes() for path in shown.iterdir() if path.name.startswith("registry.db")
    }
    connection.close()
    for path, content in kept.items():
        if shared or not path.name.endswith("-shm"):
            path.write_bytes(content)

    result = reading(shown, "search", "--format", "json", "another")

    assert result.stderr == ""
    assert "Newest title" in result.stdout


#: Run a command with a copy of a folder on a disk that is full, in a name space of its own.
_FULL = """
mount -t tmpfs -o size=6m none "$DISK" && cp -r "$COPIED" "$DISK/data" || exit 99
cat /dev/zero > "$DISK/rest" 2> /dev/null
exec "$@"
"""


def on_a_full_disk(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    disk = folder.parent / "disk"
    disk.mkdir(exist_ok=True)
    result = subprocess.run(
        ["unshare", "-rm", "bash", "-c", _FULL, "bash", sys.executable, "-m", "scrapy", *arguments],
        cwd=ROOT,
        env={
            **os.environ,
            "DISK": str(disk),
            "COPIED": str(folder),
            "DATA_DIR": str(disk / "data"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 99 or result.stderr.startswith("unshare: "):
        pytest.skip("this user cannot mount a file system")
    return result


@pytest.mark.sqlite
@pytest.mark.embedded
def test_reading_commands_work_on_a_full_disk(shown: Path, pages: Site):
    for arguments in (("search", "another"), ("status",), ("why", pages.url("/a"))):
        result = on_a_full_disk(shown, *arguments)
        assert (result.returncode, result.stderr) == (0, ""), (arguments, result)
        assert pages.url("/").split("/")[2] in result.stdout


@pytest.mark.sqlite
@pytest.mark.embedded
@pytest.mark.parametrize("shared", [b"", b"\0" * 3, None], ids=["empty", "cut", "none"])
def test_a_wal_is_read_on_a_full_disk_without_its_index(shown: Path, shared: bytes | None):
    """A full disk leaves the first bytes of the index at most."""
    wal = shown / "registry.db-wal"
    connection = apsw.Connection(str(shown / "registry.db"))
    connection.pragma("wal_autocheckpoint", 0)
    connection.execute("UPDATE content SET title = 'Newest title'").fetchall()
    kept = wal.read_bytes()
    connection.close()
    wal.write_bytes(kept)
    if shared is not None:
        (shown / "registry.db-shm").write_bytes(shared)

    result = on_a_full_disk(shown, "search", "--format", "json", "another")

    assert result.stderr == ""
    assert "Newest title" in result.stdout


@pytest.mark.sqlite
def test_a_crawl_says_that_the_disk_is_full(shown: Path, pages: Site):
    pages.clear()
    start = ("crawl", "site", "-a", f"url={pages.url('/')}", "-s", "LOG_ENABLED=0")
    result = on_a_full_disk(shown, *start)

    assert result.returncode == 1
    assert "no space left for " in result.stderr
    assert "; free some and start again" in result.stderr
    assert "this user" not in result.stderr
    assert pages.log == []


@pytest.mark.sqlite
def test_a_command_that_writes_says_that_it_may_not(shown: Path, ask: Scrapy, pages: Site):
    for arguments in (
        ("crawl", "site", "-a", f"url={pages.url('/')}", "-s", "LOG_ENABLED=0"),
        ("forget", pages.url("/a")),
        ("hosts", "--block", "a.example"),
        ("due", "--notice", pages.url("/a")),
    ):
        result = asked_to_read(ask, shown, *arguments)
        assert result.status == 1, (arguments, result)
        assert "Traceback" not in result.err
        assert "write" in result.err
        assert "this user" in result.err


@pytest.mark.sqlite
def test_an_older_layout_that_may_not_be_written_says_what_to_do(shown: Path, crawl: Crawl):
    connection = apsw.Connection(str(shown / "registry.db"))
    connection.execute("DROP TABLE trust")
    connection.pragma("user_version", 55)
    connection.close()

    result = reading(shown, "status")

    assert result.returncode == 1
    assert "has the layout of an older smartcrawl, schema version 55" in result.stderr
    assert "or name another DATA_DIR, and crawl anew" in result.stderr

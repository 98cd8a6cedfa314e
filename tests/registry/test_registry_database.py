"""A registry is opened, brought up to date, or refused with a reason; it is never made anew."""

import errno
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import apsw
import pytest

from smartcrawl.index.choice import EMBEDDED
from smartcrawl.index.embedded.reanalysis import analyze_stored_texts
from smartcrawl.index.embedded.sqlite import EmbeddedIndex
from smartcrawl.index.writing import EmbeddedIndexing
from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import RegistryError, RegistryFullError, RegistryVersionError
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database import integrity, sqlite
from smartcrawl.registry.database.migrations import migrations
from smartcrawl.registry.database.sqlite import (
    APPLICATION_ID,
    SqliteDatabase,
    connect_sqlite,
    migrate,
    translated_sqlite_errors,
)
from smartcrawl.registry.registry import open_registry
from smartcrawl.registry.removal.candidates import EndingRunRow
from smartcrawl.registry.repair.backup import prepared_restore, state_of_registry
from smartcrawl.registry.repair.salvage import is_registry_sound, salvage_registry
from smartcrawl.registry.runs.runs import RunRequest
from smartcrawl.registry.writer import RegistryWriter
from smartcrawl.rules.model import RunState
from tests.registry.build import NOW, Desk, closing

ROOT = Path(__file__).resolve().parents[2]
LATEST = migrations("sqlite")[-1][0]
A_SOURCE = "INSERT INTO source (no, name, kind, created_at) VALUES ({}, 'first', 'site', 0)"
OPENERS = """
import sys
from pathlib import Path
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.registry.registry import open_registry
from smartcrawl.registry.removal.candidates import EndingRunRow
from smartcrawl.index.choice import EMBEDDED
print("ready", flush=True)
try:
    open_registry(Path(sys.argv[1]), EMBEDDED).close()
except SmartcrawlError as error:
    print(error)
"""


def schema(connection: apsw.Connection) -> list[tuple[object, ...]]:
    return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()


#: A step after the schema, as a later version may have it.
A_STEP = ("ALTER TABLE source ADD COLUMN made_up TEXT", "CREATE VIEW made_up AS SELECT 1")


def add_step(monkeypatch: pytest.MonkeyPatch, *statements: str) -> int:
    """Let the schema have one step more; return its number."""
    known = (*migrations("sqlite"), (LATEST + 1, statements))
    for module in (sqlite, integrity):
        monkeypatch.setattr(module, "migrations", lambda _: known)
    integrity._made.cache_clear()
    return LATEST + 1


def test_both_schemas_begin_at_one_number_and_steps_follow_without_a_gap():
    for dialect in ("sqlite", "postgres"):
        assert [number for number, _ in migrations(dialect)] == list(range(100, LATEST + 1))


def test_a_fresh_file_gets_the_schema_its_version_and_its_mark(file: Path):
    registry = open_registry(file, EMBEDDED)

    assert registry.connection.pragma("user_version") == LATEST
    assert registry.connection.pragma("application_id") == APPLICATION_ID
    names = {row[1] for row in schema(registry.connection)}
    assert {"record", "state", "links", "content", "run", "chunk", "IngestItems"} <= names
    registry.close()


def test_a_registry_is_reopened_with_everything_in_it(file: Path):
    file.parent.mkdir()
    desk = Desk(file)
    desk.open()
    desk.index("http://a.example/", "words")
    stored, known = desk.stored(), schema(desk.connection)
    desk.close()

    reopened = Desk(file)
    reopened.open(resume=True)

    assert reopened.stored() == stored
    assert schema(reopened.connection) == known
    reopened.close()


def test_each_missing_step_is_applied_and_no_other(file: Path, monkeypatch: pytest.MonkeyPatch):
    open_registry(file, EMBEDDED).connection.execute(A_SOURCE.format(7)).fetchall()
    number = add_step(monkeypatch, *A_STEP)

    registry = open_registry(file, EMBEDDED)

    assert registry.connection.pragma("user_version") == number
    rows = registry.connection.execute("SELECT name, made_up FROM source").fetchall()
    assert rows == [("first", None)]
    assert integrity.database_problems(registry.connection) == []
    fresh = SqliteDatabase(file.with_name("fresh.db")).open()
    assert {row[1] for row in schema(registry.connection)} == {row[1] for row in schema(fresh)}
    registry.close()
    fresh.close()


def test_a_registry_of_an_earlier_step_is_looked_at_by_none(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    open_registry(file, EMBEDDED).close()
    number = add_step(monkeypatch, *A_STEP)
    before = file.read_bytes()

    with pytest.raises(RegistryVersionError, match="may not be written to") as caught:
        SqliteDatabase(file).look()

    assert f"status once as a user who may, to bring it to version {number}" in str(caught.value)
    assert file.read_bytes() == before


def test_a_step_that_fails_leaves_the_file_as_it_was(file: Path, monkeypatch: pytest.MonkeyPatch):
    """All steps are one transaction: no half schema, no version that claims it is whole."""
    registry = open_registry(file, EMBEDDED)
    before = schema(registry.connection)
    add_step(monkeypatch, *A_STEP, "ALTER TABLE lost ADD COLUMN made_up TEXT")

    with pytest.raises(RegistryError, match="lost"):
        migrate(registry.connection, file)

    assert schema(registry.connection) == before
    assert registry.connection.pragma("user_version") == LATEST
    registry.close()


def of_older_layout(file: Path, version: int, *, crashed: bool) -> None:
    """Write a registry as an older version laid it out; ``crashed``: its tables are in the WAL."""
    file.parent.mkdir()
    made = file.with_name("made.db")
    connection = apsw.Connection(str(made))
    connection.execute("PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0").fetchall()
    connection.execute("CREATE TABLE record (no INTEGER PRIMARY KEY, last_modified TEXT)")
    connection.execute("INSERT INTO record VALUES (1, 'Mon')")
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", version)
    if crashed:
        shutil.copy(made, file)
        shutil.copy(f"{made}-wal", f"{file}-wal")
    connection.close()
    if not crashed:
        shutil.copy(made, file)
    made.unlink()


@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
@pytest.mark.parametrize("version", [1, 55, 99])
def test_an_older_layout_is_refused_with_what_to_do_and_stays_byte_for_byte(
    file: Path, version: int, *, crashed: bool
):
    of_older_layout(file, version, crashed=crashed)
    before = {path: path.read_bytes() for path in file.parent.iterdir()}
    database = SqliteDatabase(file)

    for opener in (
        lambda: open_registry(file, EMBEDDED),
        database.open,
        database.reports,
        database.look,
        lambda: is_registry_sound(file),
        lambda: salvage_registry(file, NOW, analyze_stored_texts),
        lambda: state_of_registry(file),
    ):
        with pytest.raises(RegistryVersionError) as caught:
            opener()

        told = str(caught.value)
        assert told.startswith(f"{file} has the layout of an older smartcrawl, schema version")
        assert f"schema version {version}," in told
        assert "It is not damaged, and nothing was changed" in told
        assert f"that begin with {file.name} to another folder, or name another DATA_DIR" in told
        assert told.endswith("and crawl anew")
    assert {path: path.read_bytes() for path in file.parent.iterdir()} == before


def test_a_backup_of_an_older_layout_is_not_restored(file: Path):
    of_older_layout(file, 55, crashed=False)
    place = file.with_name("new.db")

    with (
        pytest.raises(RegistryVersionError, match=r"registry\.db has the layout of an older"),
        prepared_restore(place, file, lambda _: None),
    ):
        pass

    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_processes_that_make_the_same_registry_at_once_all_succeed(file: Path):
    """All of them find it empty and wait for one lock; the first makes it, the others see that."""
    file.parent.mkdir()
    holder = connect_sqlite(file, create=True)
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENERS, str(file)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    holder.execute("BEGIN IMMEDIATE")
    for process in openers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)  # until they wait for the lock
    holder.execute("ROLLBACK")

    told = [process.communicate(timeout=60) for process in openers]

    assert told == [("", "")] * 3
    assert holder.pragma("user_version") == LATEST
    holder.close()


def test_a_file_that_another_process_is_making_is_waited_for(file: Path):
    file.parent.mkdir()
    first = apsw.Connection(str(file))
    first.execute("CREATE TABLE other (x); DROP TABLE other; BEGIN IMMEDIATE").fetchall()
    release = threading.Timer(0.2, lambda: first.execute("ROLLBACK"))
    release.start()

    try:
        connect_sqlite(file).close()
    finally:
        release.join()
        first.close()


@pytest.mark.parametrize(
    "look",
    [
        "application_id",
        "user_version",
        "sqlite_schema",
    ],
)
def test_a_registry_that_is_made_meanwhile_is_not_taken_for_another_program_s(
    file: Path, look: str
):
    """Another process may commit the schema between any two looks at the file."""
    file.parent.mkdir()
    first, second = connect_sqlite(file, create=True), connect_sqlite(file)

    def overtake(_: apsw.Cursor, statement: str, __: object) -> bool:
        if look in statement:
            first.exec_trace = None
            migrate(second, file)
        return True

    first.exec_trace = overtake
    migrate(first, file)

    assert first.exec_trace is None, "the other process came in between"
    assert first.pragma("user_version") == LATEST
    first.close()
    second.close()


def test_a_newer_version_is_refused_by_name_and_numbers_and_stays_as_it_is(file: Path):
    open_registry(file, EMBEDDED).close()
    connection = connect_sqlite(file)
    connection.pragma("user_version", LATEST + 4)

    openers = (lambda: open_registry(file, EMBEDDED), lambda: SqliteDatabase(file).reports())
    for opener in openers:
        with pytest.raises(RegistryVersionError) as caught:
            opener()

        assert str(file) in str(caught.value)
        assert f"version {LATEST + 4}," in str(caught.value)
        assert f"up to {LATEST};" in str(caught.value)
        assert "upgrade smartcrawl" in str(caught.value)
    assert connection.pragma("user_version") == LATEST + 4
    connection.close()


@pytest.mark.parametrize(
    "mark",
    ["CREATE TABLE invoices (no)", "PRAGMA user_version = 3", "PRAGMA application_id = 1"],
)
def test_another_program_s_database_is_refused_and_not_written_to(file: Path, mark: str):
    file.parent.mkdir()
    with sqlite3.connect(file) as other:
        other.execute(mark)
    other.close()

    with pytest.raises(RegistryError, match="belongs to another program; name another") as caught:
        open_registry(file, EMBEDDED)

    assert str(file) in str(caught.value)
    with sqlite3.connect(file) as other:
        tables = other.execute("SELECT name FROM sqlite_schema").fetchall()
    other.close()
    assert tables in ([], [("invoices",)])


def test_a_file_that_is_no_database_is_refused_and_kept(file: Path):
    file.parent.mkdir()
    text = b"Dear diary, this is no database, but it is more than a hundred bytes long. " * 20
    file.write_bytes(text)

    with pytest.raises(RegistryError, match="is not a registry") as caught:
        open_registry(file, EMBEDDED)

    assert str(file) in str(caught.value)
    assert "DATA_DIR" in str(caught.value)
    assert file.read_bytes() == text


def test_a_damaged_file_is_refused_by_name(file: Path):
    file.parent.mkdir()
    desk = Desk(file)
    desk.open()
    desk.index("http://a.example/", "words")
    desk.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    desk.close()
    with file.open("r+b") as raw:
        raw.seek(100)
        raw.write(b"\xff" * 4096)

    with pytest.raises(RegistryError, match="is damaged") as caught:
        open_registry(file, EMBEDDED)

    assert str(file) in str(caught.value)
    assert "restore a backup" in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named_with_a_remedy(tmp_path: Path):
    (tmp_path / "data").write_text("a file in the way")

    with pytest.raises(RegistryError) as caught:
        open_registry(tmp_path / "data" / "below" / "registry.db", EMBEDDED)

    assert f"cannot create {tmp_path / 'data' / 'below'}" in str(caught.value)
    assert "DATA_DIR" in str(caught.value)


def test_a_folder_in_place_of_the_file_is_refused(file: Path):
    file.mkdir(parents=True)

    with pytest.raises(RegistryError, match="cannot open") as caught:
        open_registry(file, EMBEDDED)

    assert str(file) in str(caught.value)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Run as a user without rights: the rights of files do not bind root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65_534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_registry_that_may_not_be_written_is_an_error_that_names_it():
    with tempfile.TemporaryDirectory() as folder:  # which others may enter, unlike tmp_path
        file = Path(folder) / "registry.db"
        open_registry(file, EMBEDDED).close()
        file.chmod(0o444)
        Path(folder).chmod(0o555)
        try:
            with as_nobody(), pytest.raises(RegistryError, match="may write to it") as caught:
                open_registry(file, EMBEDDED).open_run(RunRequest("docs", "site"), NOW)
        finally:
            Path(folder).chmod(0o755)

    assert str(file) in str(caught.value)


def test_every_connection_is_durable_and_in_wal_mode(file: Path):
    """Asked of the connections themselves: synchronous is no property of the file."""
    met: list[Connection] = []

    def sink(connection: Connection) -> EmbeddedIndex:
        met.append(connection)
        return EmbeddedIndex(connection)

    registry = open_registry(file, EmbeddedIndexing(sink))
    run = registry.open_run(RunRequest("docs", "site"), NOW)
    writer = RegistryWriter(registry, run, judgement=Judgement())
    readers = [connect_sqlite(file, readonly=True), SqliteDatabase(file).reports()]
    writer.submit(Batch(), NOW).result()

    for connection in (registry.connection, *met, *readers):
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2  # FULL
    assert [reader.pragma("query_only") for reader in readers] == [1, 1]
    assert len(met) == 1
    writer.close()
    for reader in readers:
        reader.close()
    registry.close()


def test_a_statement_is_compiled_once_whatever_its_values(file: Path):
    open_registry(file, EMBEDDED).close()
    connection = connect_sqlite(file)
    compiled: list[int] = []
    connection.authorizer = lambda *_: compiled.append(1) or apsw.SQLITE_OK
    statement = 'SELECT e."type" FROM record r JOIN ingest_entity e USING (no) WHERE r.no = ?'
    connection.execute(statement, (1,)).fetchall()
    once = len(compiled)
    for number in (1, 2, 3):
        connection.execute(statement, (number,)).fetchall()
    assert 0 < once == len(compiled)
    connection.close()


def test_a_reader_cannot_write(file: Path):
    registry = open_registry(file, EMBEDDED)
    for reader in (connect_sqlite(file, readonly=True), SqliteDatabase(file).reports()):
        with pytest.raises(apsw.ReadOnlyError):
            reader.execute("DELETE FROM sequence").fetchall()
        reader.close()
    registry.close()


def test_a_reader_sees_the_last_commit_and_waits_for_nobody(file: Path):
    registry = open_registry(file, EMBEDDED)
    reader = connect_sqlite(file, readonly=True)
    count = "SELECT count(*) FROM source"

    with transaction(registry.connection):
        registry.connection.execute(A_SOURCE.format(1)).fetchall()
        before = reader.execute(count).get

    assert (before, reader.execute(count).get) == (0, 1)
    reader.close()
    registry.close()


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt()])
def test_a_transaction_that_fails_leaves_nothing(desk: Desk, error: BaseException):
    before = desk.rows("SELECT * FROM source")

    def half() -> None:
        with transaction(desk.connection):
            desk.connection.execute("DELETE FROM source").fetchall()
            raise error

    with pytest.raises(type(error)):
        half()

    assert desk.rows("SELECT * FROM source") == before
    assert not desk.connection.in_transaction


def test_a_batch_that_fails_in_its_last_step_leaves_nothing(desk: Desk):
    """Outcomes, addresses and content are written before the index, and go with it."""
    desk.index("http://a.example/", "before")
    visits = [desk.visit("http://a.example/", "after"), desk.visit("http://a.example/new", "x")]
    stored, run = desk.stored(), desk.rows("SELECT * FROM run")
    desk.connection.execute(
        "CREATE TEMP TRIGGER refuse BEFORE INSERT ON chunk BEGIN SELECT RAISE(ABORT, 'full'); END"
    ).fetchall()

    with pytest.raises(apsw.ConstraintError, match="full"):
        desk.write(*visits, addresses=[desk.address("http://a.example/third")])

    assert desk.stored() == stored
    assert desk.rows("SELECT * FROM run") == run


def test_a_batch_that_cannot_be_written_fails_its_future_and_leaves_nothing(file: Path):
    registry = open_registry(file, EMBEDDED)
    run = registry.open_run(RunRequest("docs", "site"), NOW)
    writer = RegistryWriter(registry, run, judgement=Judgement())
    registry.interrupt(run, ("interrupted",), NOW)
    batch = Batch()
    batch.reached[7] = 0

    with pytest.raises(RegistryError, match="run 1 was closed by another process"):
        writer.submit(batch, NOW).result()

    writer.close()
    registry.close()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            apsw.FullError("disk"),
            "no space left for {}; free some and start again: everything committed is kept, and a"
            " crawl goes on with ",
        ),
        (apsw.IOError("disk"), "cannot write {} (disk); check"),
        (apsw.BusyError("held"), "{} was locked for 30 s while trying to write it; another"),
        (apsw.CorruptError("torn"), "{} is damaged (torn); restore"),
        (apsw.NotADBError("odd"), "{} is not a registry (odd); move it away"),
    ],
)
def test_what_goes_wrong_in_the_file_says_what_to_do(file: Path, error: Exception, message: str):
    with pytest.raises(RegistryError) as caught, translated_sqlite_errors(file, "write"):
        raise error

    assert str(caught.value).startswith(message.format(file))
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [apsw.IOError("disk"), apsw.CantOpenError("disk")])
@pytest.mark.parametrize(("free", "message"), [(32_767, "no space left"), (32_768, "cannot open")])
def test_an_error_on_a_full_disk_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, free: int, message: str
):
    """SQLite calls it an I/O error that the index of a WAL finds no room."""
    disk = os.statvfs("/")
    seen = os.statvfs_result((1, 1, disk.f_blocks, free, free, *disk[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: seen)

    with pytest.raises(RegistryError, match=message), translated_sqlite_errors(file, "open"):
        raise error


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EDQUOT, "no space left"),
        (errno.EACCES, "cannot write .* this user"),
    ],
)
def test_a_quota_is_a_full_disk(
    file: Path, monkeypatch: pytest.MonkeyPatch, found: int, message: str
):
    file.parent.mkdir()
    monkeypatch.setattr(tempfile, "TemporaryFile", Mock(side_effect=OSError(found, "probe")))

    with pytest.raises(RegistryError, match=message), translated_sqlite_errors(file, "write"):
        raise apsw.IOError("disk I/O error")


@pytest.mark.parametrize(
    ("limit", "error", "message"),
    [
        (4 << 20, apsw.IOError("disk"), r"cannot grow: this system limits .* 4,194,304 bytes"),
        (4 << 20, apsw.ReadOnlyError("disk"), "cannot write"),
        ((4 << 20) + 1, apsw.IOError("disk"), "cannot write"),
        (resource.RLIM_INFINITY, apsw.IOError("disk"), "cannot write"),
    ],
)
def test_a_limit_of_files_has_its_own_message(
    file: Path, monkeypatch: pytest.MonkeyPatch, limit: int, error: Exception, message: str
):
    file.parent.mkdir()
    with file.with_name(f"{file.name}-wal").open("wb") as wal:
        wal.truncate((3 << 20) + 1)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))

    with pytest.raises(RegistryError, match=message), translated_sqlite_errors(file, "write"):
        raise error


def test_an_error_of_a_folder_that_is_gone_is_none_of_a_full_disk(tmp_path: Path):
    missing = tmp_path / "gone" / "registry.db"
    with pytest.raises(RegistryError, match="cannot open"):
        SqliteDatabase(missing).connect()


def gone(file: Path) -> None:
    file.unlink()


def gone_with_its_folder(file: Path) -> None:
    shutil.rmtree(file.parent)


def moved(file: Path) -> None:
    file.parent.rename(file.parent.with_name("elsewhere"))


def replaced(file: Path) -> None:
    copy = file.with_name("copy.db")
    shutil.copyfile(file, copy)
    copy.replace(file)


@pytest.mark.parametrize("change", [gone, gone_with_its_folder, moved, replaced])
def test_a_run_whose_registry_is_not_at_its_place_any_more_is_not_sealed(
    file: Path, change: Callable[[Path], None]
):
    registry = open_registry(file, EMBEDDED)
    run = registry.open_run(RunRequest("docs", "site"), NOW)
    writer = RegistryWriter(registry, run, judgement=Judgement())
    writer.submit(Batch(), NOW).result()
    change(file)

    for work in (
        lambda: writer.submit(Batch(), NOW).result(),
        lambda: registry.end(EndingRunRow(run.no, run.source, NOW, closing()), ()),
        lambda: registry.interrupt(run, ("shutdown",), NOW),
    ):
        with pytest.raises(RegistryError, match="deleted, moved away or replaced"):
            work()

    assert registry.connection.execute("SELECT state FROM run").get == RunState.OPEN
    writer.close()
    registry.close()


def test_a_registry_that_is_deleted_under_a_sweep_is_told(file: Path):
    """What is deleted after the seal is lost as well."""
    registry = open_registry(file, EMBEDDED)
    run = registry.open_run(RunRequest("docs", "site"), NOW)
    ending = EndingRunRow(run.no, run.source, NOW, closing())

    with pytest.raises(RegistryError, match="deleted, moved away or replaced"):
        registry.end(ending, (), lambda _: file.unlink(missing_ok=True))
    registry.close()


@pytest.mark.parametrize("readonly", [False, True])
def test_only_the_opening_of_a_registry_creates_its_file(file: Path, readonly: bool):
    file.parent.mkdir()
    database = SqliteDatabase(file)

    for connect in (lambda: database.connect(readonly=readonly), database.reports):
        with pytest.raises(RegistryError, match="which is not there"):
            connect()
        assert not file.exists()

    database.open().close()
    database.connect(readonly=readonly).close()


def test_a_registry_of_an_older_version_on_a_full_disk_says_that_the_disk_is_full(
    file: Path, monkeypatch: pytest.MonkeyPatch
):
    """It cannot be read as it is, and there is no room to bring it up to date."""
    open_registry(file, EMBEDDED).close()
    add_step(monkeypatch, *A_STEP)

    def full(_: Connection) -> None:
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr("smartcrawl.registry.database.sqlite.apply_migrations", full)
    with pytest.raises(RegistryFullError, match="no space left"):
        SqliteDatabase(file).reports()


def test_a_lock_is_waited_for(file: Path):
    """A short transaction of another process is waited for, not failed on."""
    registry = open_registry(file, EMBEDDED)
    code = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from smartcrawl.registry.database.sqlite import connect_sqlite
        from smartcrawl.registry.connection import transaction
        connection = connect_sqlite(Path(sys.argv[1]))
        with transaction(connection):
            connection.execute(sys.argv[2]).fetchall()
            print("held", flush=True)
            time.sleep(0.3)
    """)
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(file), A_SOURCE.format(7)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"

    run = registry.open_run(RunRequest("second", "site"), NOW)

    assert process.wait(timeout=30) == 0
    process.stdout.close()
    assert run.source == 8
    registry.close()


def test_a_connection_that_only_reads_sees_what_is_committed_meanwhile(file: Path):
    """It shares the index of the WAL with the process that writes, where that has one."""
    add = "INSERT INTO source (name, kind, created_at) VALUES (?, 'site', 0)"
    writer = SqliteDatabase(file).open()
    writer.execute(add, ("a",))
    reader = SqliteDatabase(file).read_only()
    counts = []
    for name in ("b", "c"):
        counts.append(reader.execute("SELECT count(*) FROM source").get)
        writer.execute(add, (name,))
    reader.close()
    writer.close()

    assert counts == [1, 2]

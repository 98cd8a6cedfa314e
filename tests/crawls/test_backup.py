"""Backups: whole at any moment, checked, and a state from which crawls converge."""

import json
import os
import random
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw
import pytest

from smartcrawl.registry.database.sqlite import SqliteDatabase
from tests.crawls.commands import Crawl, Remote, wait_until
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.long(but=3), pytest.mark.sqlite, pytest.mark.embedded]

PATHS = tuple(f"/p{n}" for n in range(12))
_MINUTES = 2  #: of crawls that are killed


@pytest.fixture
def shop(site: Site) -> Site:
    """A home page with twelve pages below it."""
    site.pages["/"] = html("Home", *PATHS, text="the home page")
    for path in PATHS:
        site.pages[path] = html(path, text=f"all words of {path}")
    return site


@contextmanager
def another_process(registry: Path) -> Iterator[None]:
    """Have the registry open for reading, as a server has it between two requests."""
    with closing(SqliteDatabase(registry).connect(readonly=True)) as connection:
        connection.execute("SELECT count(*) FROM run").fetchall()
        yield


def beside(crawl: Crawl, name: str) -> Crawl:
    """Another folder of state, for the same site."""
    other = Crawl(crawl.folder, crawl._scrapy)
    other.data_dir = crawl.folder / name
    other.registry = other.data_dir / "registry.db"
    other.environment |= crawl.environment
    return other


def copied(crawl: Crawl, name: str) -> Crawl:
    """A plain copy of the file of the registry, without what lies beside it."""
    other = beside(crawl, name)
    other.data_dir.mkdir()
    shutil.copyfile(crawl.registry, other.registry)
    return other


def found(crawl: Crawl) -> dict[str, tuple[object, ...]]:
    """Status, hash of the content and depth of each page."""
    keys = ("status", "contentHash", "depth")
    return {path: tuple(row[key] for key in keys) for path, row in crawl.pages().items()}


def test_a_plain_copy_is_whole_while_another_process_has_the_registry_open(shop, crawl):
    crawl.run("config")  # makes nothing; the registry comes with the first crawl
    crawl(shop.url("/"))
    with another_process(crawl.registry):
        shop.pages["/p1"] = html("P1", text="edited words")
        crawl(shop.url("/"))
        assert copied(crawl, "after a run").hits("edited") == ["/p1"]

        crawl.run("forget", shop.url("/p2"))
        assert copied(crawl, "after forget").hits('"all words of /p2"') == []

        crawl.run("undo", "2")
        assert copied(crawl, "after undo").hits('"all words of /p2"') == ["/p2"]


def test_backups_under_a_crawl_are_states_that_converge(shop, crawl):
    for path in PATHS:
        shop.pages[path] = Page(html(path, text=f"all words of {path}"), delay=0.2)
    files = [crawl.folder / f"backup-{n}.db" for n in range(4)]
    crawl(shop.url("/"), settings={"CLOSESPIDER_PAGECOUNT": 1}, expect=None)
    with crawl.start(
        shop.url("/"), settings={"CONCURRENT_REQUESTS": 1, "CONCURRENT_REQUESTS_PER_DOMAIN": 1}
    ) as running:
        for number, file in enumerate(files):
            wait_until(lambda n=number: len(shop.log) > 3 * n, "the crawl to go on")
            crawl.run("backup", str(file))
        assert running.process.poll() is None, "the last backup came after the crawl"
        running.end()
    whole = found(crawl)
    assert len(whole) == 13

    for number, file in enumerate(files):
        other = beside(crawl, f"restored-{number}")
        other.run("restore", str(file))
        other(shop.url("/"))
        assert found(other) == whole
        assert other.run("audit").out


def test_a_backup_is_private_and_replaced_whole(shop, crawl):
    crawl(shop.url("/"))
    file = crawl.folder / "backup.db"

    printed = json.loads(crawl.run("backup", "--format", "json", str(file)).out)

    assert printed == {
        "file": str(file),
        "size": file.stat().st_size,
        "runs": 1,
        "changed": printed["changed"],
    }
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    first = file.read_bytes()
    crawl(shop.url("/"))
    assert "2 runs" in crawl.run("backup", str(file)).out
    assert file.read_bytes() != first
    assert sorted(path.name for path in crawl.folder.iterdir() if "backup" in path.name) == [
        "backup.db"
    ]


def test_a_backup_of_a_damaged_registry_leaves_the_former_one(shop, crawl):
    crawl(shop.url("/"))
    file = crawl.folder / "backup.db"
    crawl.run("backup", str(file))
    former = file.read_bytes()
    with closing(apsw.Connection(str(crawl.registry))) as connection:
        connection.execute("PRAGMA writable_schema = 1").fetchall()
        connection.execute("UPDATE content SET text_length = 'many'").fetchall()

    printed = crawl.run("backup", str(file), expect=1).err

    assert "no backup was written" in printed
    assert file.read_bytes() == former
    assert not list(crawl.folder.glob(".backup*"))


@pytest.mark.parametrize("name", ["registry", "other", "folder", "nowhere"])
def test_a_backup_is_written_over_nothing_but_a_backup(shop, crawl, name):
    crawl(shop.url("/"))
    other = crawl.folder / "other.txt"
    other.write_text("a file of another program, which stays as it is " * 3)
    places = {
        "registry": (crawl.registry, "is the registry itself"),
        "other": (other, "is not a backup of a registry; give another file"),
        "folder": (crawl.folder, "is a folder: name a file in it"),
        "nowhere": (crawl.folder / "nowhere" / "b.db", "name a file in a folder that exists"),
    }
    place, words = places[name]
    before = crawl.registry.read_bytes()

    assert words in crawl.run("backup", str(place), expect=1).err
    assert crawl.registry.read_bytes() == before
    assert other.read_text().startswith("a file of another program")


def test_newer_work_is_not_overwritten_without_yes(shop, crawl):
    file = crawl.folder / "backup.db"
    crawl(shop.url("/"))
    crawl.run("backup", str(file))
    assert "1 run" in crawl.run("restore", str(file)).out, "nothing is newer"
    crawl.run("forget", shop.url("/p2"))
    assert crawl.run("restore", str(file), expect=3).err.startswith("restore: nothing was changed")
    crawl(shop.url("/"))

    refused = crawl.run("restore", str(file), expect=3)

    assert "the registry has 1 run more" in refused.err
    assert f"scrapy restore --yes {file}" in refused.err
    assert [run["run"] for run in crawl.runs()] == [2, 1]

    with another_process(crawl.registry):
        crawl.run("restore", "--yes", str(file))
        assert [run["run"] for run in crawl.runs()] == [1]
        assert copied(crawl, "restored").hits('"all words of /p2"') == ["/p2"]


def test_no_backup_is_restored_under_a_crawl(shop, crawl):
    file = crawl.folder / "backup.db"
    crawl(shop.url("/"))
    crawl.run("backup", str(file))
    (source,) = crawl.rows("SELECT name FROM source")[0]
    with crawl.held(source):
        printed = crawl.run("restore", "--yes", str(file), expect=4)
    assert source in printed.err


def test_a_damaged_registry_is_kept_beside_the_restored_one(shop, crawl):
    file = crawl.folder / "backup.db"
    crawl(shop.url("/"))
    crawl.run("backup", str(file))
    crawl.registry.write_bytes(b"SQLite format 3\0" + os.urandom(50_000))

    printed = crawl.run("restore", str(file)).out

    (aside,) = crawl.data_dir.glob("registry.db.damaged-*")
    assert str(aside) in printed
    assert len(found(crawl)) == 13


@pytest.mark.parametrize("content", [b"", b"no database at all " * 9])
def test_what_is_no_backup_is_refused_and_nothing_is_changed(shop, crawl, content):
    crawl(shop.url("/"))
    file = crawl.folder / "backup.db"
    file.write_bytes(content)
    before = crawl.registry.read_bytes()

    printed = crawl.run("restore", "--yes", str(file), expect=1).err

    assert f"{file} is not a backup of a registry" in printed
    assert crawl.registry.read_bytes() == before
    assert not list(crawl.data_dir.glob(".registry*"))


def test_snapshots_go_with_a_backup_and_come_back(shop, crawl):
    file = crawl.folder / "backup.db"
    crawl(shop.url("/"))
    first = json.loads(crawl.run("backup", "--snapshots", "--format", "json", str(file)).out)
    shop.pages["/p1"] = html("P1", text="edited words")
    crawl(shop.url("/"))
    second = json.loads(crawl.run("backup", "--snapshots", "--format", "json", str(file)).out)

    assert [
        (printed["copied"], printed["kept"], printed["missing"]) for printed in (first, second)
    ] == [
        (13, 0, 0),
        (1, 13, 0),
    ], "the body before the edit is kept, since undo needs it"
    other = beside(crawl, "restored")
    assert "14 snapshots restored" in other.run("restore", str(file)).out
    assert sorted(path.name for path in other.data_dir.glob("snapshots/*/*/*/*")) == sorted(
        path.name for path in crawl.data_dir.glob("snapshots/*/*/*/*")
    )

    for path in crawl.data_dir.glob("snapshots/*/*/*/*"):
        path.unlink()
    shutil.rmtree(f"{file}.snapshots")
    printed = crawl.run("backup", "--snapshots", str(file), expect=3).err
    assert "14 snapshots missing in the store and not copied" in printed


def test_a_registry_that_is_restored_elsewhere_finds_its_snapshots_there(shop, crawl):
    file = crawl.folder / "backup.db"
    declared = f'[sources.docs]\nkind = "site"\nseeds = ["{shop.url("/")}"]\n'
    crawl.declare(declared)
    crawl(source="docs")
    crawl.run("backup", "--snapshots", str(file))
    other = beside(crawl, "restored")
    [(taken,)] = crawl.rows("SELECT path FROM snapshot ORDER BY path LIMIT 1")
    foreign = other.data_dir / "snapshots" / taken
    foreign.parent.mkdir(parents=True)
    foreign.write_bytes(b"another registry's")
    other.run("restore", str(file))
    assert foreign.read_bytes() == b"another registry's"

    other.declare(declared + 'drop_selectors = ["h1"]')
    shop.clear()
    other.run("due", "--source", "docs")

    assert shop.log == [], "their bodies are read again out of the restored store"
    rows = other.rows("SELECT storage_path FROM crawled_documents")
    assert len(rows) == 13
    for (path,) in rows:
        assert path.startswith((other.data_dir / "snapshots").as_uri())
        assert Path(path.removeprefix("file://")).exists()


def test_a_registry_in_postgresql_is_copied_by_its_own_program(shop, crawl, postgres_url):
    crawl.environment["REGISTRY_URL"] = postgres_url
    crawl.registry = Remote(postgres_url)
    crawl(shop.url("/"))

    printed = crawl.run("backup", "b.db", expect=1).err

    assert f"pg_dump --format=custom --file={Path('b.db').absolute()}" in printed
    refused = crawl.run("restore", "b.db", expect=1).err
    assert "pg_restore --clean" in refused
    assert "; then scrapy audit --repair, if the index is in Elasticsearch" in refused


def test_a_restored_registry_begins_an_epoch_of_its_index(
    shop, crawl, elasticsearch, elasticsearch_prefix
):
    crawl.environment |= {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
    }
    file = crawl.folder / "backup.db"
    crawl(shop.url("/"))
    crawl.run("backup", str(file))
    shop.pages["/p1"] = html("P1", text="edited words")
    crawl(shop.url("/"))

    printed = crawl.run("restore", "--yes", str(file)).out

    assert "epoch 2 began" in printed
    crawl(shop.url("/"))
    assert crawl.hits("edited") == ["/p1"]
    crawl.run("audit")


def test_a_run_whose_folder_is_deleted_under_it_fails_with_the_reason(shop, crawl):
    crawl(shop.url("/"))
    shop.pages["/p11"] = Page(
        html("P11", text="edited words"), until=lambda: shutil.rmtree(crawl.data_dir) or True
    )

    result = crawl(shop.url("/"), expect=1)

    assert "deleted, moved away or replaced" in result.err
    assert "complete" not in result.out
    assert not crawl.registry.exists()


@pytest.mark.long  # two minutes of crawls that are killed
def test_backups_every_ten_seconds_under_crawls_that_are_killed_converge(shop, crawl):
    names = [f"/n{n}" for n in range(120)]
    shop.pages["/"] = html("Home", *PATHS, *names, text="the home page")
    for path in (*PATHS, *names):
        shop.pages[path] = Page(html(path, text=f"all words of {path}"), delay=0.1)
    files, began, lives = [], time.monotonic(), random.Random(46)
    edits = 0
    while time.monotonic() < began + _MINUTES * 60:
        with crawl.start(shop.url("/")) as running:
            dies = time.monotonic() + lives.uniform(2, 12)
            while running.process.poll() is None and time.monotonic() < dies:
                is_there = (crawl.data_dir / "registry.db").exists()
                if is_there and time.monotonic() > began + 10 * len(files):
                    files.append(crawl.folder / f"backup-{len(files)}.db")
                    crawl.run("backup", str(files[-1]))
                time.sleep(0.1)
        edits += 1
        shop.pages[names[edits]] = html(names[edits], text=f"edited {edits} times")
    crawl(shop.url("/"))
    whole = found(crawl)
    assert len(whole) == 1 + len(PATHS) + len(names)
    assert len(files) >= 6 * _MINUTES

    for number, file in enumerate(files):
        other = beside(crawl, f"restored-{number}")
        other.run("restore", str(file))
        other(shop.url("/"))
        assert found(other) == whole, file.name
        assert other.run("audit").status == 0
        assert other.counts_add_up()

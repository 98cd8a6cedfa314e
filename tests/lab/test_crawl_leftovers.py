"""Snapshot files that a killed process left behind go, and no other file ever does."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from smartcrawl.registry.commit.snapshots import OWNER, RegistryPlace, SnapshotLeftovers
from tests.lab.lab_crawl import LabCrawl
from tests.site_server import Site, html

pytestmark = pytest.mark.alone

_KEY = "8c" * 32
_HOUR = 3_600


class Store:
    """The folder of snapshots of a crawl, as it is after a process was killed."""

    def __init__(self, crawl: LabCrawl, site: Site) -> None:
        self.crawl, self.site = crawl, site
        self.folder = crawl.data_dir / "snapshots"
        site.pages["/"] = html("Home", "/a")
        site.pages["/a"] = html("A")
        crawl(site.url("/"))
        self.age_mark()
        self.kill()

    def mark(self) -> dict[str, object]:
        [(value,)] = self.crawl.rows("SELECT value FROM choice WHERE name LIKE 'snapshots: %'")
        return json.loads(value)

    def age_mark(self, **changed: object) -> None:
        [(name,)] = self.crawl.rows("SELECT name FROM choice WHERE name LIKE 'snapshots: %'")
        mark = json.dumps({**self.mark(), "since": 1_000, **changed})
        self.crawl.rows(f"UPDATE choice SET value = '{mark}' WHERE name = '{name}'")

    def kill(self) -> None:
        """Let the last run be one that was interrupted."""
        self.crawl.rows("UPDATE run SET state = 9 WHERE no = (SELECT max(no) FROM run)")

    def put(self, path: str, *, age: float = _HOUR) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"left behind")
        os.utime(file, (self.crawl.now - age,) * 2)
        return file

    def clear(self) -> None:
        self.crawl(self.site.url("/"))


@pytest.fixture
def store(crawl: LabCrawl, site: Site) -> Store:
    return Store(crawl, site)


def test_what_a_killed_process_left_behind_is_removed(store: Store):
    named = sorted(store.folder.rglob("*.gz"))
    left = [
        store.put(f"2025/01/02/{_KEY}.html.gz"),
        store.put(f"2025/01/02/{_KEY}-0123abcd.pdf.gz"),
        store.put(f"2025/01/02/.{_KEY}.html.gz.0123abcd"),
    ]

    store.clear()

    assert not any(file.exists() for file in left)
    assert named
    assert all(file.exists() for file in named)
    assert "snapshot" not in store.crawl.run("audit").err


def test_what_is_left_of_today_goes_on_another_day(store: Store):
    """Today another run may take its path just now; by tomorrow no run may have died anew."""
    today = datetime.fromtimestamp(store.crawl.now, UTC).strftime("%Y/%m/%d")
    left = store.put(f"{today}/{_KEY}.html.gz")
    store.clear()
    store.clear()
    assert left.exists()
    assert store.mark()["again"] == today
    store.age_mark(again="2025/01/02")
    left = left.rename(store.put(f"2025/01/02/{_KEY}.html.gz"))

    store.clear()

    assert not left.exists()
    assert store.mark()["again"] == ""


def test_what_the_first_crawl_leaves_behind_is_younger_than_the_mark(crawl: LabCrawl, site: Site):
    site.pages["/"] = html("Home")
    crawl(site.url("/"))
    [(value,)] = crawl.rows("SELECT value FROM choice WHERE name LIKE 'snapshots: %'")
    [written] = (crawl.data_dir / "snapshots").rglob("*.gz")

    assert json.loads(value)["since"] <= written.stat().st_mtime


@pytest.mark.sqlite
def test_a_folder_that_is_away_is_not_made_again(store: Store):
    """Its rows say that there is one: it may come back."""
    store.folder.rename(store.folder.with_name("away"))
    store.site.pages.clear()

    store.crawl(store.site.url("/"), expect=None)

    assert not store.folder.exists()


@pytest.mark.sqlite
def test_what_a_row_names_stays_whatever_its_age(store: Store):
    """Also where the row is of another store: the folder may have been moved."""
    (path, *_), *_ = store.crawl.rows("SELECT path FROM snapshot")
    old = f"2025/01/02/{_KEY}.html.gz"
    (store.folder / "2025/01/02").mkdir(parents=True)
    (store.folder / path).rename(store.put(old))
    store.crawl.rows(f"UPDATE snapshot SET path = '{old}' WHERE path = '{path}'")
    store.crawl.rows("INSERT INTO store (no, url) VALUES (77, 'file:///elsewhere')")
    other = store.put(f"2025/01/03/{_KEY}.html.gz")
    store.crawl.rows(
        "INSERT INTO snapshot (store, body_hash, path, at)"
        f" VALUES (77, x'01', '2025/01/03/{_KEY}.html.gz', 1)"
    )

    store.clear()

    assert (store.folder / old).exists()
    assert other.exists()


def test_no_other_file_is_touched(store: Store):
    today = datetime.fromtimestamp(store.crawl.now, UTC).strftime("%Y/%m/%d")
    stay = [
        store.put(f"{today}/{_KEY}.html.gz"),  # another run may write it just now
        store.put(f"2025/01/02/{_KEY}.html.gz", age=5),
        store.put(f"2025/01/02/{_KEY}.html.gz.bak"),
        store.put("2025/01/02/notes.txt"),
        store.put(f"2025/01/02/.{_KEY}.html.gz"),
        store.put(f"2025/01/{_KEY}.html.gz"),
        store.put(f"{_KEY}.html.gz"),
        store.put(f"2025/01/02/more/{_KEY}.html.gz"),
        store.put(f"backup/2025/01/02/{_KEY}.html.gz"),
    ]
    (store.folder / f"2025/01/02/{'9d' * 32}.html.gz").mkdir()

    store.clear()

    assert all(file.exists() for file in stay)


def test_files_from_before_the_mark_stay(store: Store):
    """They may be of a registry that wrote here before."""
    store.age_mark(since=store.crawl.now - 60)
    left = store.put(f"2025/01/02/{_KEY}.html.gz")

    store.clear()

    assert left.exists()


@pytest.mark.sqlite
def test_a_folder_that_another_registry_writes_to_loses_nothing(store: Store, tmp_path: Path):
    left = store.put(f"2025/01/02/{_KEY}.html.gz")
    other = {"REGISTRY_URL": f"sqlite:///{tmp_path / 'other.db'}"}
    store.crawl(store.site.url("/"), settings=other)
    assert (store.folder / OWNER).read_text().endswith("\nshared\n")

    store.clear()

    assert left.exists()


@pytest.mark.sqlite
def test_a_copy_of_the_registry_removes_nothing(store: Store, tmp_path: Path):
    """Copied to try something out, with the folder of the original."""
    left = store.put(f"2025/01/02/{_KEY}.html.gz")
    copy = tmp_path / "copy.db"
    copy.write_bytes(store.crawl.registry.read_bytes())

    store.crawl(store.site.url("/"), settings={"REGISTRY_URL": f"sqlite:///{copy}"})
    store.clear()

    assert left.exists()


@pytest.mark.sqlite
@pytest.mark.parametrize("way", ["moved", "link", "dots", "registry"])
def test_a_folder_that_was_moved_is_not_shared(store: Store, way: str):
    """Nor is it under another spelling, or where the registry alone was moved."""
    left = store.put(f"2025/01/02/{_KEY}.html.gz")
    data, crawl = store.crawl.data_dir, store.crawl
    if way == "moved":
        crawl.data_dir = data.rename(data.with_name("moved"))
    elif way == "link":
        crawl.data_dir = data.with_name("link")
        crawl.data_dir.symlink_to(data)
    elif way == "dots":
        crawl.data_dir = data / ".." / data.name
    else:
        crawl.environment["SNAPSHOT_STORE"] = str(store.folder)
        crawl.data_dir = crawl.folder / "deeper" / "other"
        crawl.data_dir.mkdir(parents=True)
        for file in data.glob("registry.db*"):
            file.rename(crawl.data_dir / file.name)
    crawl.registry = crawl.data_dir / "registry.db"
    left = crawl.data_dir / left.relative_to(data) if way == "moved" else left
    store.folder = left.parents[3]

    store.clear()

    assert not left.exists()
    assert "shared" not in (store.folder / OWNER).read_text()
    assert crawl.rows("SELECT count(*) FROM store") == [(1,)]
    [(url,)] = crawl.rows("SELECT url FROM store")
    assert url == Path(os.path.realpath(store.folder)).as_uri()


def test_nothing_is_removed_while_another_source_is_crawled(store: Store):
    left = store.put(f"2025/01/02/{_KEY}.html.gz")
    store.crawl.rows("INSERT INTO source (name, kind, created_at) VALUES ('other', 'site', 0)")

    with store.crawl.held("other"):
        store.clear()
    assert left.exists()

    store.clear()
    assert not left.exists()


def test_where_no_run_died_no_folder_is_listed(store: Store, monkeypatch: pytest.MonkeyPatch):
    store.clear()  # looks, and remembers
    left = store.put(f"2025/01/02/{_KEY}.html.gz")

    store.clear()
    assert left.exists()

    store.kill()
    store.clear()
    assert not left.exists()


def test_a_store_that_is_not_mounted_is_not_marked(tmp_path: Path):
    """An empty folder has to stay empty, so that it is not taken for the store."""
    place = RegistryPlace("registry.db")
    SnapshotLeftovers(tmp_path, 1)._claim(None, 1, place)  # type: ignore[arg-type]

    assert list(tmp_path.iterdir()) == []

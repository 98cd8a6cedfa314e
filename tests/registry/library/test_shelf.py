"""The files of a library and its rows agree, whenever a process dies (R3-100, R3-119, RD-12)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.model.library import LibraryFile, LibraryItem
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import (
    ProcessedRow,
    library_rows,
    store_library_file_row,
    store_processed_rows,
)
from smartcrawl.registry.library.shelf import INCOMING, KEPT, LibraryShelf, library_row_staged_path

SOURCE = 7
#: A record that was never indexed, and that a run has listed before.
_STATE = """
INSERT INTO state (no, reached_run, depth, standing, seen_run) VALUES (:no, 1, 0, 0, 1)
"""
MODIFIED = 1_700_000_000_000_000


class Killed(BaseException):
    """The process ends here."""


class DyingFolder(LibraryFolder):
    """A folder whose process dies before its n-th change of the disk."""

    left = -1

    def _step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def rename(self, before: str, after: str) -> None:
        self._step()
        super().rename(before, after)

    def remove(self, path: str) -> bool:
        self._step()
        return super().remove(path)

    def write(self, path: str, data: bytes, modified: int) -> None:
        self._step()
        super().write(path, data, modified)


class Shelves:
    """A library on disk and in a registry, and batches that change both."""

    def __init__(self, place: Path) -> None:
        self.database = registry_database(place / "registry.db")
        self.connection: Connection = self.database.open()
        self.root = place / "library"
        self.folder = LibraryFolder(self.root)
        self.texts: dict[int, str] = {}

    def item(self, no: int, name: str, text: str) -> LibraryItem:
        path = f"/sites/a/Docs/{name}"
        return LibraryItem(no, f"{no:032x}", name.rpartition("/")[2], path, len(text), MODIFIED, "")

    def files(self, wanted: dict[int, tuple[str, str | None]]) -> list[Any]:
        """Return the visits of a batch: by number the name, and a new text or None."""
        visits = []
        for no, (name, text) in wanted.items():
            staged = None
            if text is not None:
                staged = library_row_staged_path(no)
                self.folder.write(staged, text.encode(), MODIFIED)
            held = text if text is not None else self.texts[no]
            file = LibraryFile(self.item(no, name, held), f"02_embedded/{name}", staged)
            visits.append(
                SimpleNamespace(page=SimpleNamespace(no=no), answer=SimpleNamespace(file=file))
            )
        for visit in visits:
            if visit.answer.file.staged is None:
                rows = {row.no: row for row in library_rows(self.connection, SOURCE)}
                visit.answer.file = visit.answer.file._replace(held=rows[visit.page.no].path)
        return visits

    def commit(self, folder: LibraryFolder, visits: list[Any]) -> None:
        shelf = LibraryShelf(folder, SOURCE)
        shelf.prepare(self.connection, SimpleNamespace(visits=visits))  # type: ignore[arg-type]
        with transaction(self.connection):
            shelf.store(self.connection)
        shelf.finish()

    def recover(self) -> None:
        LibraryShelf(self.folder, SOURCE).recover(self.connection)

    def disk(self) -> dict[str, str]:
        """Return the text of each file of the library by its path, those that wait included."""
        tops = ("02_embedded", KEPT)
        return {
            path: self.folder.read(path).decode()
            for top in tops
            for path, _, _ in self.folder.walk(top)
        }

    def rows(self) -> dict[int, str]:
        return {row.no: row.path or "" for row in library_rows(self.connection, SOURCE)}

    def check(self) -> None:
        """Each row has its bytes at its path, and the disk has nothing else."""
        rows, disk = self.rows(), self.disk()
        assert {no: disk.get(path) for no, path in rows.items()} == self.texts
        assert sorted(disk) == sorted(rows.values())
        waiting = [path for path, _, _ in self.folder.walk(INCOMING) if not path.startswith(KEPT)]
        assert waiting == []


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[Shelves]:
    made = Shelves(tmp_path)
    made.commit(
        made.folder, made.files({1: ("a.txt", "one"), 2: ("b.txt", "two"), 3: ("f/c.txt", "three")})
    )
    made.texts = {1: "one", 2: "two", 3: "three"}
    yield made
    made.connection.close()


#: Changes of one batch each: number -> (name, new text or None where the held bytes move).
CHANGES = {
    "renamed": {1: ("new.txt", None)},
    "moved into a folder": {1: ("f/a.txt", None)},
    "swapped names": {1: ("b.txt", None), 2: ("a.txt", None)},
    "a cycle": {1: ("b.txt", None), 2: ("f/c.txt", None), 3: ("a.txt", None)},
    "replaced by another item (A13)": {4: ("a.txt", "four")},
    "changed": {1: ("a.txt", "one and more")},
    "changed and swapped": {1: ("b.txt", "one and more"), 2: ("a.txt", None)},
    "the place of one that another batch moves": {1: ("b.txt", None)},
    "new": {4: ("g/h/d.txt", "four")},
    "folder renamed": {3: ("F2/c.txt", None)},
}


@pytest.mark.long(but=5)
@pytest.mark.parametrize("name", CHANGES)
def test_a_batch_keeps_every_byte_wherever_its_process_dies(name: str, shelves: Shelves) -> None:
    wanted = CHANGES[name]
    before, step = dict(shelves.texts), 0
    while True:
        visits = shelves.files(wanted)
        dying = DyingFolder(shelves.root)
        dying.left = step
        rows = list(library_rows(shelves.connection, SOURCE))
        try:
            shelves.commit(dying, visits)
        except Killed:
            shelves.recover()
            if list(library_rows(shelves.connection, SOURCE)) == rows:
                shelves.texts = before  # not committed: as it was
                shelves.check()
            else:
                break  # killed after the commit, while it tidied up
        else:
            break
        step += 1
        assert step < 100
    assert step > 0
    shelves.texts = before | {no: text for no, (_, text) in wanted.items() if text is not None}
    shelves.check()
    assert {no: shelves.rows()[no] for no in wanted} == {
        no: f"02_embedded/{name}" for no, (name, _) in wanted.items()
    }


def test_a_kept_file_goes_to_its_new_place_without_a_download(shelves: Shelves) -> None:
    shelves.commit(shelves.folder, shelves.files({1: ("b.txt", None)}))
    assert shelves.rows()[2] == f"{KEPT}/2/b.txt"
    shelves.check()
    shelves.commit(shelves.folder, shelves.files({2: ("a.txt", None)}))
    assert shelves.rows() == {
        1: "02_embedded/b.txt",
        2: "02_embedded/a.txt",
        3: "02_embedded/f/c.txt",
    }
    shelves.check()


def test_a_name_that_the_system_refuses_is_the_error_of_its_item_alone(shelves: Shelves) -> None:
    shelves.commit(shelves.folder, shelves.files({4: ("x" * 256, "four"), 1: ("new.txt", None)}))
    stored = {row.no: row for row in library_rows(shelves.connection, SOURCE)}
    assert stored[4].path is None
    assert stored[4].sharepoint_error == "it cannot be put into its place: File name too long"
    assert stored[1].path == "02_embedded/new.txt"


def test_no_file_goes_through_a_symlink(shelves: Shelves, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (shelves.root / "02_embedded" / "g").symlink_to(outside)
    shelves.commit(shelves.folder, shelves.files({4: ("g/d.txt", "four")}))
    stored = {row.no: row for row in library_rows(shelves.connection, SOURCE)}
    assert stored[4].path is None
    assert stored[4].sharepoint_error is not None
    assert list(outside.iterdir()) == []


NAMES = st.sampled_from(["a.txt", "b.txt", "f/a.txt", "f/b.txt", "g/h/a.txt"])


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.dictionaries(st.integers(1, 4), st.tuples(NAMES, st.booleans()), max_size=4),
            st.integers(0, 12),
        ),
        max_size=6,
    )
)
def test_any_history_of_batches_and_deaths_keeps_rows_and_disk_equal(
    steps: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    shelves = Shelves(tmp_path_factory.mktemp("library"))
    try:
        for count, (changes, left) in enumerate(steps):
            wanted = {}
            for no, (name, is_new) in changes.items():
                if name in [taken for taken, _ in wanted.values()]:
                    continue  # two items at one place are another test
                fresh = is_new or no not in shelves.texts
                wanted[no] = (name, f"{no} of batch {'x' * count}" if fresh else None)
            rows = list(library_rows(shelves.connection, SOURCE))
            dying = DyingFolder(shelves.root)
            dying.left = left
            visits = shelves.files(wanted)
            try:
                shelves.commit(dying, visits)
            except Killed:
                shelves.recover()
                if list(library_rows(shelves.connection, SOURCE)) == rows:
                    shelves.check()
                    continue
            shelves.texts |= {no: text for no, (_, text) in wanted.items() if text is not None}
            shelves.check()
    finally:
        shelves.connection.close()


def _page(shelves: Shelves, no: int, name: str) -> Any:
    """Return the visit of a site page whose new original came."""
    staged = library_row_staged_path(no)
    shelves.folder.write(staged, f"page {no}".encode(), MODIFIED)
    file = LibraryFile(shelves.item(no, name, "…"), f"01_originals/{name}", staged)
    return SimpleNamespace(page=SimpleNamespace(no=no), answer=SimpleNamespace(file=file))


def _process(shelves: Shelves, no: int, name: str) -> None:
    path = f"02_embedded/{name}"
    shelves.folder.write(path, f"processed {no}".encode(), MODIFIED)
    (row,) = (row for row in library_rows(shelves.connection, SOURCE) if row.no == no)
    with transaction(shelves.connection):
        store_processed_rows(shelves.connection, [ProcessedRow(row, path, None)])


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Shelves]:
    made = Shelves(tmp_path)
    for no, name in ((1, "a.html"), (2, "f/b.html")):
        made.commit(made.folder, [_page(made, no, name)])
        _process(made, no, name)
    yield made
    made.connection.close()


def _all(shelves: Shelves) -> dict[str, str]:
    tops = ("01_originals", "02_embedded", INCOMING)
    found = (path for top in tops for path, _, _ in shelves.folder.walk(top))
    return {path: shelves.folder.read(path).decode() for path in found}


@pytest.mark.covers("R3-73", "M-53")
@pytest.mark.parametrize("name", ["a.html", "new/a.html"])
def test_the_former_files_of_a_page_go_with_the_commit_of_its_new_original(
    name: str, pages: Shelves
) -> None:
    pages.commit(pages.folder, [_page(pages, 1, name)])
    assert _all(pages) == {
        f"01_originals/{name}": "page 1",
        "01_originals/f/b.html": "page 2",
        "02_embedded/f/b.html": "processed 2",
    }


@pytest.mark.parametrize("batches", [1, 2])
def test_pages_that_swap_their_names_lose_nothing(batches: int, pages: Shelves) -> None:
    visits = [_page(pages, 1, "f/b.html"), _page(pages, 2, "a.html")]
    for some in [visits] if batches == 1 else [[visit] for visit in visits]:
        pages.commit(pages.folder, some)
    assert _all(pages) == {"01_originals/a.html": "page 2", "01_originals/f/b.html": "page 1"}


def test_a_result_for_an_item_that_was_replaced_meanwhile_is_dropped(pages: Shelves) -> None:
    (row, _) = library_rows(pages.connection, SOURCE)
    visit = _page(pages, 1, "a.html")
    visit.answer.file = visit.answer.file._replace(
        item=visit.answer.file.item._replace(last_modified=MODIFIED + 1)
    )
    pages.commit(pages.folder, [visit])
    stale = row._replace(path="01_originals/a.html")
    with transaction(pages.connection):
        store_processed_rows(pages.connection, [ProcessedRow(stale, "02_embedded/a.html", None)])
    assert pages.rows()[1] == "01_originals/a.html"


@pytest.mark.covers("M-53")
def test_the_original_of_a_processed_page_stays_when_another_page_goes(pages: Shelves) -> None:
    gone = LibraryFile(pages.item(9, "a.html", "…"), "01_originals/a.html")
    with transaction(pages.connection):
        store_library_file_row(pages.connection, SOURCE, 9, gone)
        pages.connection.execute(_STATE, {"no": 9})
    before = _all(pages)
    assert LibraryShelf(pages.folder, SOURCE).remove_gone(pages.connection, 2) == 1
    assert set(pages.rows()) == {1, 2}
    assert _all(pages) == before


def test_the_file_of_a_whole_list_never_goes(tmp_path: Path) -> None:
    made = Shelves(tmp_path)
    made.folder.write("01_originals/s.csv", b"ID\r\n", MODIFIED)
    made.folder.write("02_embedded/1.md", b"# 1", MODIFIED)
    shelf = LibraryShelf(made.folder, SOURCE, shared=["01_originals/s.csv"])
    with transaction(made.connection):
        for no, path in ((1, "01_originals/s.csv"), (2, "02_embedded/1.md")):
            file = LibraryFile(made.item(no, f"{no}.md", "…"), path)
            store_library_file_row(made.connection, SOURCE, no, file)
            made.connection.execute(_STATE, {"no": no})
    assert shelf.remove_gone(made.connection, 2) == 2
    assert _all(made) == {"01_originals/s.csv": "ID\r\n"}
    made.connection.close()

"""The check of a library: what its disk and map lack beside its items, and what is corrected."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import empty_registry_in_memory
from smartcrawl.registry.library.folder import LibraryFolder, OverlaidFolder
from smartcrawl.registry.library.items import library_rows
from smartcrawl.run.library.comparison import OTHER_BYTES, Difference, LibraryComparison
from smartcrawl.run.library.maps import LibraryMaps
from smartcrawl.run.library.steps import LibraryCheck, LibraryFindings
from smartcrawl.sources.sharepoint.source import SharepointSource

DATE = 1_700_000_000_000_000
OTHER = DATE + 1_000_000
A, B, Y = "02_embedded/a/x.md", "02_embedded/b/x.md", "02_embedded/y.md"
ORIGINAL = "01_originals/a/x.md"
CSV = "01_originals/s.csv"
NOTE = "03_failed/1.txt"
FIVE = b"12345"
FILES, PAGES, LISTS = SourceType.FILES, SourceType.SITEPAGES, SourceType.LISTS


def item(path: str | None, *, size: int = 5, error: str | None = None) -> LibraryRow:
    """An item of the library, whose file is at a path; its number is its id."""
    return LibraryRow(0, 0, "", "x.md", "/sites/x/x.md", size, DATE, path, DATE, error, None)


@dataclass(frozen=True)
class Case:
    """Items, the files on disk, and what a check finds and corrects."""

    items: Mapping[int, LibraryRow]
    disk: Mapping[str, bytes | tuple[bytes, int]]  #: with a date, if it is not that of the items
    kind: SourceType = FILES
    unmapped: tuple[int, ...] = ()  #: items that are not in the map
    again: tuple[str, ...] = ()
    in_map: int = 0  #: missing there
    on_disk: int = 0  #: missing there
    orphans: tuple[str, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    verified: int = 0
    audited: str = ""  #: what an audit finds, before anything is corrected


ONE = {1: item(A)}
LOST = {"again": ("1",), "on_disk": 1}
CASES = {
    "nothing": Case({}, {}),
    "all is well": Case(ONE, {A: FIVE}, verified=1),
    "R3-134 no row": Case(
        ONE, {}, unmapped=(1,), again=("1",), in_map=1, audited=f"missing {A}"
    ),
    "R3-134 no row, and its place is taken": Case(
        ONE, {A: FIVE}, unmapped=(1,), again=("1",), in_map=1
    ),
    "R3-134 no row is no reason to move": Case(
        ONE, {B: FIVE}, unmapped=(1,), again=("1",), in_map=1, orphans=(B,),
        audited=f"missing {A}, surplus {B}",
    ),
    "B1 R3-104 R3-135": Case(ONE, {}, **LOST, audited=f"missing {A}"),
    "R3-79 an empty path without an error": Case(
        {1: item(None)}, {}, **LOST, audited="missing /sites/x/x.md"
    ),
    "R3-79 an empty path without an error is not looked for in the map": Case(
        {1: item(None)}, {}, unmapped=(1,), **LOST, audited="missing /sites/x/x.md"
    ),
    "B2 R3-105 R3-136": Case(
        ONE, {A: FIVE, Y: b"1", B: FIVE}, orphans=(B, Y), verified=1,
        audited=f"surplus {B}, surplus {Y}",
    ),
    "B3 R3-106 R3-137": Case(
        ONE, {B: FIVE}, moved={B: A}, audited=f"missing {A}, surplus {B}"
    ),
    "B3 a misplaced file of another date": Case(
        ONE, {B: (FIVE, OTHER)}, moved={B: A}, audited=f"missing {A}, surplus {B}"
    ),
    "RD-13 another size": Case(
        ONE, {B: b"123456"}, **LOST, orphans=(B,), audited=f"missing {A}, surplus {B}"
    ),
    "RD-13 a file that is referred to stays": Case(
        {1: item(A), 2: item(B)}, {B: FIVE}, **LOST, verified=1, audited=f"missing {A}"
    ),
    "M-50 an error without a file": Case({1: item(None, error="gone")}, {}),
    "M-50 an error without a file, and without a row": Case(
        {1: item(None, error="gone")}, {}, unmapped=(1,)
    ),
    "M-50 an error without a file, and there is one": Case(
        {1: item(None, error="gone")}, {A: FIVE}, orphans=(A,), audited=f"surplus {A}"
    ),
    "M-50 an error with the old file": Case({1: item(A, error="gone")}, {A: FIVE}, verified=1),
    "M-50 an error and the old file is missing": Case(
        {1: item(A, error="gone")}, {}, **LOST, audited=f"missing {A}"
    ),
    "E2 a note about an error": Case(
        {1: item(NOTE, error="too long")}, {NOTE: (b"why", OTHER)}, verified=1
    ),
    "E2 an empty note": Case(
        {1: item(NOTE, error="too long")}, {NOTE: b""}, **LOST, audited=f"changed {NOTE}"
    ),
    "E2 a note that is lost is not looked for": Case(
        {1: item(NOTE, error="too long")}, {"02_embedded/1.txt": FIVE}, **LOST,
        orphans=("02_embedded/1.txt",), audited=f"surplus 02_embedded/1.txt, missing {NOTE}",
    ),
    "R3-86 a file that the store refused": Case({1: item(NOTE)}, {NOTE: FIVE}, verified=1),
    "R3-86 a file that the store refused, and of another size": Case(
        {1: item(NOTE)}, {NOTE: b"1"}, **LOST, audited=f"changed {NOTE}"
    ),
    "a file that made way for another is not looked for in the map": Case(
        {1: item(".incoming/kept/1")}, {".incoming/kept/1": FIVE}, unmapped=(1,), verified=1
    ),
    "E3 M-51 empty in the library": Case({1: item(A, size=0)}, {A: b""}, verified=1),
    "E3 M-51 empty in the library, and elsewhere": Case(
        {1: item(A, size=0)}, {B: b""}, moved={B: A}, audited=f"missing {A}, surplus {B}"
    ),
    "B4 M-51 empty on disk": Case(ONE, {A: b""}, **LOST, audited=f"changed {A}"),
    "B4 M-51 empty, and its file is elsewhere": Case(
        ONE, {A: b"", B: FIVE}, moved={B: A}, audited=f"changed {A}, surplus {B}"
    ),
    "B4 other bytes of another date": Case(
        ONE, {A: (b"abcde", OTHER)}, **LOST, audited=f"changed {A}"
    ),
    "another date of the same bytes": Case(
        ONE, {A: (FIVE, OTHER)}, verified=1, audited=f"changed {A}"
    ),
    "M-53 processed": Case(ONE, {A: b"1234567", ORIGINAL: FIVE}, PAGES, verified=1),
    "M-53 processed, and empty": Case(
        ONE, {A: b"", ORIGINAL: FIVE}, PAGES, **LOST, audited=f"changed {A}"
    ),
    "M-53 processed, and its original is missing": Case(
        ONE, {A: FIVE}, PAGES, **LOST, verified=1, audited=f"missing {ORIGINAL}"
    ),
    "M-53 processed, and its original has another date": Case(
        ONE, {A: FIVE, ORIGINAL: (FIVE, OTHER)}, PAGES, **LOST, verified=1,
        audited=f"changed {ORIGINAL}",
    ),
    "R3-86 a page that the store refused": Case(
        {1: item(NOTE)}, {NOTE: (b"123", OTHER)}, PAGES, verified=1
    ),
    "M-53 not processed yet, and an old result": Case(
        {1: item(ORIGINAL)}, {A: b"1234567", ORIGINAL: FIVE}, PAGES, orphans=(A,), verified=1,
        audited=f"surplus {A}",
    ),
    "M-53 a page is not looked for elsewhere": Case(
        {1: item(ORIGINAL)}, {B: FIVE}, PAGES, **LOST, orphans=(B,),
        audited=f"missing {ORIGINAL}, surplus {B}",
    ),
    "a list has one original": Case(
        {1: item(CSV), 2: item(CSV)}, {CSV: (b"1", OTHER)}, LISTS, verified=2
    ),
    "a list lacks its original": Case(
        {1: item(CSV), 2: item(CSV)}, {}, LISTS, again=("1", "2"), on_disk=2,
        audited=f"missing {CSV}",
    ),
    "a list has an empty original": Case(
        {1: item(CSV), 2: item(CSV)}, {CSV: b""}, LISTS, again=("1", "2"), on_disk=2,
        audited=f"changed {CSV}",
    ),
    "a list lacks its original, and its map an item": Case(
        {1: item(CSV), 2: item(CSV)}, {}, LISTS, unmapped=(1,), again=("1", "2"), in_map=1,
        on_disk=1, audited=f"missing {CSV}",
    ),
    "a list lacks its original, and its map the last item": Case(
        {1: item(CSV), 2: item(CSV)}, {}, LISTS, unmapped=(2,), again=("1", "2"), in_map=1,
        on_disk=1, audited=f"missing {CSV}",
    ),
    "a list of which no item is in the map": Case(
        {1: item(CSV), 2: item(CSV)}, {}, LISTS, unmapped=(1, 2), again=("1", "2"), in_map=2,
        audited=f"missing {CSV}",
    ),
    "the original of a list that is processed is no orphan": Case(
        {1: item("02_embedded/1.md")}, {"02_embedded/1.md": b"1", CSV: b"2"}, LISTS, verified=1
    ),
}  # fmt: skip


@dataclass
class Stage:
    """A source, its registry and its disk."""

    case: Case
    source: SharepointSource
    connection: Connection
    folder: LibraryFolder

    @property
    def maps(self) -> LibraryMaps:
        return LibraryMaps(self.source, self.folder)

    def before(self, folder: LibraryFolder | None = None) -> LibraryFindings:
        return LibraryCheck(self.source, folder or self.folder, 1).before(
            self.connection, self.maps
        )

    def after(self, found: LibraryFindings, *, is_whole: bool = True) -> LibraryFindings:
        check = LibraryCheck(self.source, self.folder, 1)
        return check.after(self.connection, found, is_whole=is_whole)

    def disk(self) -> dict[str, tuple[int, int]]:
        """Return size and date of each file but the maps, by path."""
        root = self.folder.root
        return {
            path.relative_to(root).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
            for path in root.rglob("*")
            if path.is_file() and path.parent != root
        }


@cache
def _registry() -> Connection:
    """Return a registry for all tests, as making one takes longer than most of them."""
    connection = empty_registry_in_memory()
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection


def stage(case: Case, storage: Path) -> Stage:
    """Return a source as a case has it."""
    source = SharepointSource(
        name="D.s", domain="D", source_id="s", source_type=case.kind,
        site_url="https://a.example/sites/x", url_part="/Docs", storage=storage,
    )  # fmt: skip
    connection = _registry()
    connection.execute("DELETE FROM library_item")
    connection.execute("DELETE FROM record")
    names = (*LibraryRow._fields, "source", "body_hash")
    statement = f"INSERT INTO library_item ({', '.join(names)}) VALUES ({'?, ' * 12}?)"
    for no, row in case.items.items():
        values = row._replace(no=no, unique_id=str(no))
        connection.execute(
            "INSERT INTO record (no, source, id, url, host, first_run, first_seen)"
            " VALUES (?, 1, ?, '', 1, 1, 1)", (no, str(no).encode()),
        )  # fmt: skip
        connection.execute(statement, (*values, 1, sha256(FIVE).digest()))
    folder = LibraryFolder(source.folder)
    for path, content in case.disk.items():
        body, modified = content if isinstance(content, tuple) else (content, DATE)
        folder.write(path, body, modified)
    found = Stage(case, source, connection, folder)
    rows = library_rows(connection, 1)
    found.maps.write_files_map(row for row in rows if row.no not in case.unmapped)
    return found


@pytest.fixture
def staged(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    return stage(CASES[request.param], tmp_path)


@pytest.mark.covers(
    "R3-33", "R3-104", "R3-105", "R3-106", "R3-107", "R3-125", "R3-131", "R3-132", "R3-133",
    "R3-134", "R3-135", "R3-136", "R3-137", "R3-138",
)  # fmt: skip
@pytest.mark.parametrize("staged", CASES, indirect=True)
def test_a_check_finds_and_corrects(staged: Stage):
    case, before = staged.case, staged.disk()

    foreseen = staged.before(OverlaidFolder(staged.source.folder))
    assert staged.disk() == before
    found = staged.before()

    assert foreseen == found
    counts = found.integrity
    assert (sorted(found.again), counts.missing_in_map, counts.missing_on_disk) == (
        list(case.again), case.in_map, case.on_disk,
    )  # fmt: skip
    assert (counts.orphans, counts.moved, counts.verified) == (
        len(case.orphans) if case.items else 0, len(case.moved), case.verified,
    )  # fmt: skip
    left = {path: facts for path, facts in before.items() if path not in case.orphans}
    for old, new in case.moved.items():
        left[new] = left.pop(old)
    assert staged.disk().keys() == left.keys()
    folders = [path for path in staged.source.folder.glob("0?_*/*") if path.is_dir()]
    assert all(list(path.iterdir()) for path in folders)
    assert len(found.again_lines) == len(case.again)
    assert len(found.lines) == len(case.orphans) + len(case.moved)


@pytest.mark.parametrize("staged", CASES, indirect=True)
def test_an_audit_finds_the_same_and_changes_nothing(staged: Stage):
    before = staged.disk()
    comparison = LibraryComparison(staged.connection, staged.source, 1)

    found = list(comparison.files())

    assert ", ".join(f"{each.difference} {each.item}" for each in found) == staged.case.audited
    assert staged.disk() == before
    missing = [each for each in comparison.files_map() if each.difference is Difference.MISSING]
    assert len(missing) == len(staged.case.unmapped)


@pytest.mark.covers("R3-107")
@pytest.mark.parametrize(
    ("body", "path", "known", "found"),
    [
        (FIVE, A, True, []),
        (b"54321", A, True, [f"changed {A}: {OTHER_BYTES}"]),
        (b"54321", A, False, []),
        (b"54321", NOTE, True, []),
        (b"1", A, True, [f"changed {A}: other size or date than its item"]),
    ],
)
def test_an_audit_that_reads_files_finds_other_bytes_of_the_same_size_and_date(
    body: bytes, path: str, known: bool, found: list[str], tmp_path: Path
):
    """Not where nothing is known of the bytes, nor in a file that says why there is no text."""
    there = stage(
        Case({1: item(path, error="locked" if path == NOTE else None)}, {path: body}), tmp_path
    )
    if not known:
        there.connection.execute("UPDATE library_item SET body_hash = NULL")
    comparison = LibraryComparison(there.connection, there.source, 1)

    differences = comparison.files(reads_data=True)

    assert [f"{each.difference} {each.item}: {each.detail}" for each in differences] == found


@pytest.mark.parametrize("staged", CASES, indirect=True)
def test_a_second_check_corrects_nothing_more(staged: Stage):
    """It counts what the first one put in place, and what only the map lacked."""
    case, found = staged.case, staged.before()
    disk = staged.disk()

    again = staged.after(found, is_whole=bool(case.items))

    there = [
        no for no in case.unmapped if str(no) in found.again and case.items[no].path in case.disk
    ]
    counts = found.integrity
    verified = counts.verified + counts.moved + len(there)
    assert again.integrity == replace(counts, verified=verified)
    assert staged.disk().keys() == disk.keys()
    lost = {
        case.items[int(each)].path
        for each in found.again
        if int(each) not in there and case.items[int(each)].path is not None
    }
    assert {line.partition(" is missing")[0] for line in again.lines} == lost


def test_files_of_items_that_a_map_alone_names_wait_for_a_whole_listing(tmp_path: Path):
    """An empty registry may come to know them."""
    known = stage(Case(ONE, {A: FIVE, B: FIVE}), tmp_path)
    known.connection.execute("DELETE FROM library_item")

    found = known.before()

    assert (list(found.adopted), found.known, found.integrity.orphans) == (["1"], {A}, 0)
    assert known.after(found, is_whole=False).integrity.orphans == 0
    assert known.disk().keys() == {A, B}
    known.connection.execute(
        "INSERT INTO library_item (no, source, listitem_id, unique_id, filename,"
        " server_relative_url, file_size, last_modified) VALUES (9, 1, 9, '9', '', '/', 1, 1)"
    )
    assert known.after(found, is_whole=False).integrity.orphans == 1
    assert known.disk().keys() == {A}
    assert known.after(found, is_whole=True).integrity.orphans == 1
    assert known.disk().keys() == set()


def test_a_map_adds_no_file_that_an_item_has(tmp_path: Path):
    """Its other files are kept, as the listing may name them."""
    known = stage(Case({1: item(A), 2: item(B), 3: item(Y)}, {A: FIVE, B: FIVE, Y: FIVE}), tmp_path)
    known.connection.execute("DELETE FROM library_item WHERE no = 2")
    known.connection.execute("UPDATE library_item SET unique_id = '9' WHERE no = 3")

    found = known.before()

    assert (list(found.adopted), found.known, found.integrity.orphans) == (["2"], {B}, 0)
    assert (found.again, known.disk().keys()) == ({"9"}, {A, B, Y})


def test_an_item_that_is_newer_than_the_map_is_not_edited(tmp_path: Path):
    newer = stage(Case({1: item(A), 2: item(B)}, {A: FIVE, B: FIVE}, unmapped=(1, 2)), tmp_path)
    written = (newer.folder.root / "files_map.csv").stat().st_mtime
    statement = "INSERT INTO state (no, reached_run, depth, last_checked) VALUES (?, 1, 0, ?)"
    newer.connection.execute("DELETE FROM state")
    newer.connection.execute(statement, (1, int(written) + 2))
    newer.connection.execute(statement, (2, int(written) - 2))

    found = newer.before()

    assert (found.again, found.integrity.missing_in_map, found.integrity.verified) == ({"2"}, 1, 1)


def test_empty_folders_are_removed(tmp_path: Path):
    tidy = stage(CASES["all is well"], tmp_path)
    (tidy.folder.root / "02_embedded/empty").mkdir()
    tidy.before()
    assert not (tidy.folder.root / "02_embedded/empty").exists()


def test_the_date_of_the_same_bytes_is_set(tmp_path: Path):
    dated = stage(CASES["another date of the same bytes"], tmp_path)
    dated.before()
    assert dated.disk() == {A: (5, DATE * 1_000)}


def test_a_file_that_cannot_be_moved_comes_again(tmp_path: Path):
    barred = stage(CASES["B3 R3-106 R3-137"], tmp_path)
    (barred.folder.root / "02_embedded/a").write_bytes(b"")  # a file where a folder belongs
    found = barred.before()
    assert (found.again, found.integrity.moved) == ({"1"}, 1)
    assert any(line.startswith(f"{B} cannot be moved to {A}: ") for line in found.lines)


def test_more_items_than_one_look_up_takes(tmp_path: Path):
    many = {no: item(f"02_embedded/{no}.md") for no in range(1, 1_300)}
    lost = stage(replace(Case(many, {}), disk={"02_embedded/7.md": FIVE}), tmp_path)
    found = lost.before()
    assert (len(found.again), found.integrity.verified) == (1_298, 1)
    os.unlink(lost.folder.root / "02_embedded/7.md")
    assert len(lost.after(found).lines) == 1_299

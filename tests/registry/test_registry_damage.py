"""A damaged registry: one line with the remedy from every command, and what a salvage saves."""

import json
import os
import random
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import apsw
import pytest
from scrapy.settings import Settings

from smartcrawl.model.exceptions import RunHeldError
from smartcrawl.registry.connection import Many
from smartcrawl.registry.database.integrity import database_problems
from smartcrawl.registry.database.lease import FileLease
from smartcrawl.registry.database.sqlite import SqliteDatabase
from smartcrawl.terminal.command import RegistryCommand
from tests.crawls.commands import Crawl, Scrapy
from tests.site_server import Site, html

pytestmark = [pytest.mark.sqlite, pytest.mark.embedded]

_PAGE = 4096
_PAGES = 40
_COMMANDS = [
    ("search", "walrus"),
    ("search", "--nest-images", "walrus"),
    ("status",),
    ("registry", "--format", "jsonl"),
    ("registry", "--sitemaps"),
    ("runs",),
    ("hosts",),
    ("plan",),
    ("orphans",),
    ("deltamerge",),
    ("audit",),
    ("why", "http://a.example/"),
]


class Shelf:
    """A sound registry, and copies of it that are damaged."""

    def __init__(self, folder: Path, sound: bytes, url: str) -> None:
        self.folder = folder
        self.sound = sound
        self.url = url
        self.file = folder / "registry.db"

    def put(self, content: bytes) -> None:
        """Put these bytes in the place of the registry, and nothing beside it."""
        for path in self.folder.iterdir():
            if path.is_file():
                path.unlink()
        self.file.write_bytes(content)

    def run(self, name: str, *words: str) -> int:
        """Run a command in this process; return its exit status. An error of ours is raised."""
        command: RegistryCommand = import_module(f"smartcrawl.commands.{name}").Command()
        settings = Settings()
        settings.setmodule("smartcrawl.settings", priority="project")
        settings.set("DATA_DIR", str(self.folder), priority="cmdline")
        settings.set("SOURCES_FILE", str(self.folder / "sources.toml"), priority="cmdline")
        command.settings = settings
        parser = ArgumentParser(conflict_handler="resolve")
        command.add_options(parser)
        options, args = parser.parse_known_args(list(words))
        command.run(args, options)
        return int(getattr(command, "exitcode", 0) or 0)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        connection = apsw.Connection(str(self.file))
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Iterator[tuple[bytes, str]]:
    """The bytes of a registry after two runs, and the address of its site."""
    folder = tmp_path_factory.mktemp("built")
    with Site() as site:
        links = [f"/{number}" for number in range(_PAGES)]
        site.pages["/"] = html("Home of walruses", *links)
        for number, link in enumerate(links):
            site.pages[link] = html(f"Walrus {number}", "/", text=f"walrus words {number} " * 60)
        crawl = Crawl(folder, ask)
        crawl(site.url("/"))
        site.pages["/1"] = html("Walrus 1 again", "/")
        crawl(site.url("/"))
        yield crawl.registry.read_bytes(), site.url("/")


@pytest.fixture
def shelf(tmp_path: Path, built: tuple[bytes, str]) -> Shelf:
    shelf = Shelf(tmp_path, *built)
    shelf.put(shelf.sound)
    return shelf


def zeroed(content: bytes, start: int, length: int = _PAGE) -> bytes:
    return content[:start] + bytes(length) + content[start + length :]


def pages_of(shelf: Shelf, table: str, *, leaves: bool = True) -> list[int]:
    """The places in the file of the pages of a table or index."""
    kind = "leaf" if leaves else "internal"
    found = shelf.rows(
        f"SELECT pageno FROM dbstat WHERE name = '{table}' AND pagetype = '{kind}' ORDER BY path"
    )
    return [_PAGE * (int(str(number)) - 1) for (number,) in found]


def test_the_registry_that_is_damaged_here_was_sound(shelf: Shelf, capsys):
    for name, *words in _COMMANDS:
        assert shelf.run(name, *words) == 0, name
    connection = apsw.Connection(str(shelf.file))
    assert database_problems(connection) == []
    connection.close()
    assert len(shelf.sound) > 40 * _PAGE
    assert "is damaged" not in capsys.readouterr().err


def test_a_number_that_a_statement_does_not_take_is_no_damage(shelf: Shelf):
    database = SqliteDatabase(shelf.file)
    connection = database.connect()
    try:
        for value in (1 << 63, Many([1 << 70])):
            with pytest.raises(OverflowError) as caught:
                connection.execute("SELECT no FROM run WHERE no IN (?)", (value,))
            assert database.explained(caught.value) is None
    finally:
        connection.close()


_WHOLE: dict[str, Callable[[bytes], bytes]] = {
    "truncated to a page": lambda content: content[:_PAGE],
    "truncated in the middle": lambda content: content[: len(content) // 2 + 100],
    "without its last page": lambda content: content[:-_PAGE],
    "zeroed header": lambda content: zeroed(content, 0, 100),
    "zeroed schema": lambda content: zeroed(content, 100, _PAGE - 100),
    "zeroed after the schema": lambda content: zeroed(content, _PAGE, len(content) - _PAGE),
    "all zero": lambda content: bytes(len(content)),
    "random": lambda content: random.Random(5).randbytes(len(content)),
}


@pytest.mark.parametrize("spoil", _WHOLE.values(), ids=_WHOLE)
def test_every_command_says_in_one_line_what_to_do(shelf: Shelf, spoil, capsys):
    damaged = spoil(shelf.sound)

    for name, *words in _COMMANDS:
        shelf.put(damaged)
        status = shelf.run(name, *words)
        told = capsys.readouterr()

        if status == 0 and name != "audit":
            assert name in ("runs", "hosts", "orphans", "deltamerge", "why", "registry", "search")
            continue  # what it reads is not damaged
        assert status == 1, (name, told)
        last = told.err.splitlines()[-1]
        assert last.startswith(f"{name}: {shelf.file} is ")
        assert "restore a backup" in last
        assert "scrapy audit --salvage" in last
        assert shelf.file.read_bytes() == damaged


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.long)], ids=str)
def test_no_damage_gives_a_traceback(shelf: Shelf, capsys, share: int):
    """Pages zeroed, overwritten and exchanged, and single bits, at many places.

    One in `share` of the damages of each kind is tried.
    """
    chance = random.Random(20)
    count = len(shelf.sound) // _PAGE
    spoilt = []
    for page in chance.sample(range(1, count), min(count - 1, 30)):
        spoilt.append(zeroed(shelf.sound, page * _PAGE))
    for page in chance.sample(range(count), 15):
        content = bytearray(shelf.sound)
        content[page * _PAGE : (page + 1) * _PAGE] = chance.randbytes(_PAGE)
        spoilt.append(bytes(content))
    for _ in range(40):
        content = bytearray(shelf.sound)
        for place in chance.sample(range(len(content)), 40):
            content[place] ^= 1 << chance.randrange(8)
        spoilt.append(bytes(content))
    for _ in range(10):
        one, other = sorted(chance.sample(range(1, count), 2))
        content = bytearray(shelf.sound)
        first = content[one * _PAGE : (one + 1) * _PAGE]
        content[one * _PAGE : (one + 1) * _PAGE] = content[other * _PAGE : (other + 1) * _PAGE]
        content[other * _PAGE : (other + 1) * _PAGE] = first
        spoilt.append(bytes(content))

    statuses = set()
    for number, content in enumerate(spoilt[::share]):
        shelf.put(content)
        for name, *words in [*_COMMANDS, ("why", shelf.url)]:
            try:
                status = shelf.run(name, *words)
            except Exception as error:  # what would be a traceback
                raise AssertionError(f"{name} of damage {number}") from error
            statuses.add(status)
            told = capsys.readouterr().err
            assert status in (0, 1), (name, told)
            assert (status == 1) is (str(shelf.file) in told), (number, name, told)
    assert statuses == {0, 1}


def test_an_audit_finds_what_no_other_command_meets(shelf: Shelf, capsys):
    """An index of words that does not fit its text; values of another type; lost references."""
    for statement, words in (
        (
            "UPDATE chunk SET text = 'nothing of that' WHERE no = (SELECT max(no) FROM chunk)",
            "index of words",
        ),
        (
            "UPDATE record SET url = x'ff' WHERE no = (SELECT max(no) FROM record)",
            "record.url are no text",
        ),
        ("DELETE FROM source", "refers to a missing row of source"),
    ):
        shelf.put(shelf.sound)
        connection = apsw.Connection(str(shelf.file))
        connection.execute(statement).fetchall()
        connection.close()

        assert shelf.run("audit") == 1
        told = capsys.readouterr().err
        assert words in told
        assert "scrapy audit --salvage" in told


def edited(shelf: Shelf, *statements: str) -> None:
    """Change a sound registry as only damage does: its schema, too."""
    shelf.put(shelf.sound)
    connection = apsw.Connection(str(shelf.file))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.execute("PRAGMA writable_schema = ON").fetchall()
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


_LOST_PARTS = {
    "table state": "DELETE FROM sqlite_schema WHERE name = 'state'",
    "view url_frontier": "DELETE FROM sqlite_schema WHERE name = 'url_frontier'",
    "table chunk_words": "DELETE FROM sqlite_schema WHERE name = 'chunk_words'",
    "index record_id": "DELETE FROM sqlite_schema WHERE name = 'record_id'",
    "table content": "UPDATE sqlite_schema SET sql = replace(sql, 'txt', 'tyt')",
}


@pytest.mark.parametrize("part", _LOST_PARTS)
def test_a_part_of_the_schema_that_is_lost_is_damage(shelf: Shelf, part: str, capsys):
    """No page of the file is damaged then, and no statement is refused as corrupt."""
    edited(shelf, _LOST_PARTS[part])
    content = shelf.file.read_bytes()

    for name, *words in [*_COMMANDS, ("why", shelf.url)]:
        shelf.put(content)
        status = shelf.run(name, *words)
        told = capsys.readouterr().err
        assert status in (0, 1), (name, told)
        assert (status == 1) is ("scrapy audit --salvage" in told), (name, told)
        if name == "audit":
            with_index = part == "table state"  # SQLite itself refuses an index without a table
            assert ("no such table: main.state" if with_index else f"the {part} ") in told
            assert status == 1

    shelf.put(content)
    status, told = salvaged(shelf, capsys)
    assert status == (3 if part in ("table state", "table content") else 0), told
    for name, *words in _COMMANDS:
        assert shelf.run(name, *words) == 0, (name, capsys.readouterr())


_UNPACKED = {
    "links.raw": "UPDATE links SET raw = x'28b52ffd00' WHERE no = 1",
    "links.raw as JSON": "UPDATE links SET raw = CAST('[[1]]' AS BLOB) WHERE no = 1",
    "content.document": "UPDATE content SET document = x'28b52ffd00' WHERE no = 1",
    "run.counts": "UPDATE run SET counts = '{\"new\": ' WHERE no = 1",
}


@pytest.mark.parametrize("value", _UNPACKED)
def test_a_stored_value_that_cannot_be_unpacked_is_damage(shelf: Shelf, value: str, capsys):
    """SQLite takes it for whole. What salvage drops is fetched again."""
    edited(shelf, _UNPACKED[value])
    content = shelf.file.read_bytes()

    for name, *words in [*_COMMANDS, ("why", shelf.url)]:
        shelf.put(content)
        status = shelf.run(name, *words)
        told = capsys.readouterr().err
        assert (status == 1) is ("scrapy audit --salvage" in told), (name, told)
        if name == "audit":
            assert f"{value.removesuffix(' as JSON')} of row 1 cannot be read" in told
            assert status == 1

    shelf.put(content)
    status, told = salvaged(shelf, capsys)
    page = "links" in value or "content" in value
    assert (status, told["mended"]["fetched_again"]) == (3, int(page))
    for name, *words in [*_COMMANDS, ("why", shelf.url)]:
        assert shelf.run(name, *words) == 0, (name, capsys.readouterr())


@pytest.mark.parametrize("said", [3, 12])
def test_a_wrong_schema_version_is_damage_and_costs_nothing(shelf: Shelf, said: int, capsys):
    damaged = shelf.sound[:60] + said.to_bytes(4) + shelf.sound[64:]
    shelf.put(damaged)

    assert shelf.run("status") == 1
    told = capsys.readouterr().err
    assert f"is damaged (its schema is not that of version {said}" in told
    assert "scrapy audit --salvage" in told
    assert shelf.file.read_bytes()[100:] == damaged[100:]

    status, told = salvaged(shelf, capsys)
    assert (status, told["whole"]) == (0, True)
    with closing(apsw.Connection(str(shelf.file))) as connection:
        assert database_problems(connection) == []


def test_a_registry_that_lost_every_byte_is_not_begun_anew(
    shelf: Shelf, capsys, monkeypatch: pytest.MonkeyPatch
):
    """A new one has no leases beside it; this one was crawled into."""
    with FileLease.take(shelf.folder / "leases", "a.example:8080", "now"):
        pass
    shelf.put(b"")

    for name, *words in [*_COMMANDS, ("reindex", "--url", shelf.url)]:
        assert shelf.run(name, *words) == 1, name
        assert "is empty, though a run wrote to it" in capsys.readouterr().err
        monkeypatch.setattr("smartcrawl.registry.database.sqlite._LOOKS", 1)  # one has waited
    assert shelf.run("audit", "--salvage") == 1
    assert "nothing can be read" in capsys.readouterr().err
    assert shelf.file.read_bytes() == b""

    shelf.file.unlink()
    assert shelf.run("status") == 1
    assert "there is no registry" in capsys.readouterr().err


# Salvage


def salvaged(shelf: Shelf, capsys) -> tuple[int, dict]:
    status = shelf.run("audit", "--salvage", "--format", "json")
    told = capsys.readouterr()
    assert told.err == ""
    return status, json.loads(told.out)


def test_a_sound_registry_is_not_salvaged(shelf: Shelf, capsys):
    assert salvaged(shelf, capsys) == (0, {"sound": True})
    assert shelf.file.read_bytes() == shelf.sound
    assert sorted(path.name for path in shelf.folder.iterdir() if path.is_file())[0] == (
        "registry.db"
    )


def test_only_the_index_of_words_is_made_anew(shelf: Shelf, capsys):
    for place in pages_of(shelf, "chunk_words_data"):
        shelf.put(zeroed(shelf.file.read_bytes(), place))

    status, told = salvaged(shelf, capsys)

    assert status == 0
    assert told["whole"]
    assert told["mended"] == {"fetched_again": 0, "sources": 0, "hosts": 0, "dropped": 0}
    assert shelf.run("search", "walrus") == 0
    assert "Walrus" in capsys.readouterr().out
    assert shelf.run("audit") == 0


@pytest.mark.parametrize(
    ("lost", "visibility"),
    [
        (("DELETE FROM source",), "public"),
        (("INSERT INTO login (source) VALUES ('docs')", "DELETE FROM source"), "private"),
    ],
    ids=["public", "login"],
)
def test_a_source_whose_row_is_lost_is_private_where_one_had_a_login(
    shelf: Shelf, lost: tuple[str, ...], visibility: str, capsys
):
    edited(shelf, *lost)
    salvaged(shelf, capsys)

    found = shelf.rows("SELECT name, visibility FROM source WHERE name LIKE 'salvaged-%'")
    assert {one for _, one in found} == {visibility}


@pytest.mark.long(but=4)
@pytest.mark.parametrize(
    "table",
    ["record", "state", "links", "content", "chunk", "host", "source", "run", "seed", "sequence",
     "record_id"],
)  # fmt: skip
def test_what_is_missing_of_a_table_is_said_and_the_rest_is_kept(shelf: Shelf, table: str, capsys):
    """The damaged file stays as it is, under another name."""
    places = pages_of(shelf, table)
    damaged = zeroed(shelf.sound, places[len(places) // 2])
    before = dict(shelf.rows("SELECT name, value FROM sequence"))
    shelf.put(damaged)

    status, told = salvaged(shelf, capsys)

    assert Path(told["aside"]).read_bytes() == damaged
    missing = {name for name, one in told["tables"].items() if one["missing"] != 0}
    if table == "record_id":  # an index, which the rows make again
        assert (status, missing) == (0, set())
    else:
        assert (status, missing) == (3, {table})
    connection = apsw.Connection(str(shelf.file))
    assert database_problems(connection) == []
    connection.close()
    for name, *words in _COMMANDS:
        # Pages link to documents whose records are gone: an audit tells them, and keeps them.
        told = 3 if (name, table) == ("audit", "record") else 0
        assert shelf.run(name, *words) == told, (name, capsys.readouterr())
    after = dict(shelf.rows("SELECT name, value FROM sequence"))
    assert after["number"] >= before["number"]
    if table not in ("record", "sequence"):
        assert after["address"] >= before["address"]
    held = "SELECT count(*) FROM record r JOIN state s USING (no) WHERE s.standing = 2"
    whole = f"{held} AND r.content IN (SELECT content FROM chunk)"
    assert shelf.rows(held) == shelf.rows(whole)  # none passes for whole that is not


def test_pages_without_all_of_their_content_are_fetched_again(
    shelf: Shelf, capsys, built: tuple[bytes, str]
):
    """No 304 confirms what is not there any more."""
    places = pages_of(shelf, "chunk")
    shelf.put(zeroed(shelf.sound, places[len(places) // 2]))

    _, told = salvaged(shelf, capsys)

    again = told["mended"]["fetched_again"]
    assert 0 < again < _PAGES
    bare = "SELECT count(*) FROM record JOIN state USING (no) WHERE standing = 0"
    assert shelf.rows(f"{bare} AND etag IS NULL AND last_modified IS NULL") == [(again,)]
    assert shelf.rows("SELECT count(*) FROM record") == [(_PAGES + 1,)]


def test_where_nothing_can_be_read_nothing_is_changed(shelf: Shelf, capsys):
    damaged = bytes(len(shelf.sound))
    shelf.put(damaged)

    assert shelf.run("audit", "--salvage") == 1

    assert "restore a backup" in capsys.readouterr().err
    assert shelf.file.read_bytes() == damaged
    assert [path.name for path in shelf.folder.iterdir()] == ["registry.db"]


def test_a_header_that_is_lost_loses_nothing_else(shelf: Shelf, capsys):
    shelf.put(zeroed(shelf.sound, 0, 100))

    status, told = salvaged(shelf, capsys)

    assert (status, told["whole"]) == (0, True)
    assert shelf.rows("SELECT count(*) FROM record") == [(_PAGES + 1,)]


@pytest.mark.parametrize(("start", "found"), [(18, b"\x09\x09"), (20, b"\x99"), (21, b"\0\0\0")])
def test_a_header_that_is_not_sqlites_loses_nothing_else(shelf: Shelf, start, found, capsys):
    shelf.put(shelf.sound[:start] + found + shelf.sound[start + len(found) :])
    if shelf.run("status") == 0:
        return  # SQLite does not look at it
    capsys.readouterr()

    status, told = salvaged(shelf, capsys)

    assert (status, told["whole"]) == (0, True)
    assert shelf.rows("SELECT count(*) FROM record") == [(_PAGES + 1,)]


def test_no_run_begins_under_a_salvage(shelf: Shelf, monkeypatch, capsys):
    """What it wrote would go with the damaged file."""
    shelf.put(zeroed(shelf.sound, pages_of(shelf, "chunk")[1]))
    leases = shelf.folder / "leases"
    with FileLease.take(leases, "a.example:8080", "now"):
        pass
    swap = Path.replace

    def look(path: Path, target: Path) -> Path:
        with pytest.raises(RunHeldError, match=r"a\.example:8080"):
            FileLease.take(leases, "a.example:8080", "now")
        return swap(path, target)

    monkeypatch.setattr(Path, "replace", look)
    status, told = salvaged(shelf, capsys)

    assert (status, told["sound"]) == (3, False)
    FileLease.take(leases, "a.example:8080", "now").release()


@pytest.mark.parametrize("last", [(os, "link"), (Path, "replace")], ids=["link", "replace"])
def test_a_salvage_that_dies_at_its_end_leaves_a_registry(shelf: Shelf, last, monkeypatch):
    """Without one the next crawl would begin an empty one."""
    damaged = zeroed(shelf.sound, pages_of(shelf, "chunk")[1])
    shelf.put(damaged)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(*last, dies)
    with pytest.raises(KeyboardInterrupt):
        shelf.run("audit", "--salvage")

    assert shelf.file.read_bytes() == damaged


def test_a_second_salvage_writes_over_no_first_one(shelf: Shelf, capsys):
    damaged = zeroed(shelf.sound, pages_of(shelf, "chunk")[1])
    kept = []
    for _ in range(2):
        shelf.file.unlink()
        shelf.file.write_bytes(damaged)
        kept.append(Path(salvaged(shelf, capsys)[1]["aside"]))

    assert kept[0] != kept[1]
    assert [path.read_bytes() for path in kept] == [damaged, damaged]


def test_no_registry_is_salvaged_under_a_run(shelf: Shelf, capsys):
    damaged = zeroed(shelf.sound, pages_of(shelf, "chunk")[1])
    shelf.put(damaged)

    with FileLease.take(shelf.folder / "leases", "a.example:8080", "now"):
        assert shelf.run("audit", "--salvage") == 4

    assert "stop the runs of a.example:8080 first" in capsys.readouterr().err
    assert shelf.file.read_bytes() == damaged


@pytest.mark.long
def test_a_salvaged_registry_is_crawled_on(site: Site, crawl: Crawl):
    """Its pages are there; those that lost something are fetched, the others are confirmed."""
    links = [f"/{number}" for number in range(_PAGES)]
    site.pages["/"] = html("Home of walruses", *links)
    for number, link in enumerate(links):
        site.pages[link] = html(f"Walrus {number}", "/", text=f"walrus words {number} " * 60)
    crawl(site.url("/"))
    shelf = Shelf(crawl.data_dir, crawl.registry.read_bytes(), site.url("/"))
    content = shelf.sound
    for table in ("chunk", "record", "state", "links"):
        places = pages_of(shelf, table)
        content = zeroed(content, places[len(places) // 2])
    crawl.registry.write_bytes(content)

    broken = crawl(site.url("/"), expect=None)
    assert broken.status == 1
    assert "scrapy audit --salvage" in broken.err
    crawl.run("audit", "--salvage", expect=3)
    for _ in range(2):
        crawl(site.url("/"))

    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert len(crawl.outcomes()) == _PAGES + 1
    assert len(crawl.hits("walrus")) == _PAGES + 1
    crawl.run("audit")


@pytest.mark.long
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_crawl_over_a_damaged_registry_says_what_to_do(
    built: tuple[bytes, str], crawl: Crawl, lane: str
):
    """Wherever it meets the damage: at the start, between pages, while it writes, at the end."""
    crawl.environment["REVALIDATION_LANE"] = lane
    crawl.data_dir.mkdir()
    shelf = Shelf(crawl.data_dir, *built)
    met = 0
    for table in (
        "record", "record_id", "state", "links", "content", "chunk", "chunk_words_data", "host",
        "run", "source", "sequence", "snapshot",
    ):  # fmt: skip
        shelf.put(shelf.sound)
        places = pages_of(shelf, table)
        damaged = zeroed(shelf.sound, places[len(places) // 2])
        shelf.put(damaged)

        result = crawl(shelf.url, force=1, expect=None)

        assert result.status in (0, 1, 3), (table, result)
        if result.status == 1:
            met += 1
            assert f"{shelf.file} is damaged" in result.err, (table, result)
            assert "scrapy audit --salvage" in result.err
    assert met > 6

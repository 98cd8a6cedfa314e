"""``files_metadata.json`` in step with the registry's note of it (R3-141, R3-145, R3-148)."""

import json
import os
from datetime import UTC, datetime

import pytest

from smartcrawl.model.exceptions import PushError, SourceError
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.run.library import metadata as module
from smartcrawl.run.library.metadata import LibraryMetadata
from smartcrawl.sources.sharepoint.domains import load_sharepoint_domain
from tests.sources.sharepoint.test_sharepoint_metadata import FILE, ROW

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MAP = "openai_file_id,sharepoint_unique_file_id\r\n{}"


@pytest.fixture
def connection(tmp_path):
    """Connection to an empty registry."""
    opened = registry_database(tmp_path / "registry.sqlite").open()
    yield opened
    opened.close()


@pytest.fixture
def domain(tmp_path):
    """Domain with one source."""
    folder = tmp_path / "storage" / "domains" / "DOMAIN01"
    folder.mkdir(parents=True)
    site = "https://contoso.sharepoint.com/sites/Example"
    source = {"source_id": "source01", "site_url": site, "sharepoint_url_part": "/Docs",
              "filter": ""}  # fmt: skip
    content = {"name": "", "file_sources": [source], "list_sources": [], "sitepage_sources": []}
    (folder / "domain.json").write_text(json.dumps(content))
    return load_sharepoint_domain(tmp_path / "storage", "DOMAIN01")


@pytest.fixture
def metadata(domain, connection):
    """The file of the domain."""
    return LibraryMetadata(domain, connection, NOW)


@pytest.fixture
def path(domain):
    """Its place."""
    return domain.path.with_name("files_metadata.json")


def entries(path):
    """Return its entries."""
    return json.loads(path.read_text(encoding="utf-8"))


def edit(path, **custom):
    """Give each entry custom properties, as another tool does."""
    path.write_text(json.dumps([entry | custom for entry in entries(path)]))


def version(number):
    """Return a further version of the file."""
    return FILE._replace(openai_file_id=f"file-{number}", embedded_utc=f"2024-0{number}")


@pytest.mark.covers("R3-06", "R3-89", "R3-97", "R3-141", "R3-147")
def test_versions_add_up_and_carry_the_properties_over(metadata, path):
    assert metadata.update([version(1)]) == (1, 0, 1, ())
    edit(path, topic={"deep": [1, None]})
    assert metadata.update([version(1), version(2)]) == (1, 0, 2, ())
    assert [entry["topic"] for entry in entries(path)] == [{"deep": [1, None]}] * 2
    assert [entry["openai_file_id"] for entry in entries(path)] == ["file-1", "file-2"]
    other = FILE._replace(openai_file_id="file-9", row=ROW._replace(unique_id="other"))
    assert metadata.update([other]) == (1, 0, 3, ())
    assert "topic" not in entries(path)[2]


def test_files_that_are_known_leave_the_file_alone(metadata, path):
    metadata.update([version(1)])
    edit(path, mine=1)
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert metadata.update([version(1)]) == (0, 0, 0, ())
    assert metadata.update([]) == (0, 0, 0, ())
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


@pytest.mark.parametrize("damage", [b"[{", b"[{]", b"[1]", b""])
@pytest.mark.covers("R3-40")
def test_a_damaged_file_is_kept_and_rebuilt_with_its_properties(metadata, path, damage):
    metadata.update([version(1)])
    edit(path, mine={"a": 1})
    metadata.update([version(2)])
    whole = entries(path)
    for number, name in ((3, ""), (4, "_2")):
        path.write_bytes(damage)
        added, _, _, (line,) = metadata.update([version(number)])
        assert added == 1
        aside = path.with_name(f"files_metadata.json.damaged-20260102T030405Z{name}")
        assert aside.read_bytes() == damage
        assert f"{path} is damaged" in line
        assert aside.name in line
        assert f"rebuilt with {len(whole)} entries" in line
        assert entries(path)[:-1] == whole
        assert entries(path)[-1]["mine"] == {"a": 1}
        whole = entries(path)


def test_a_cut_file_is_rebuilt_although_nothing_is_new(metadata, path):
    metadata.update([version(1)])
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert "is damaged" in metadata.update([version(1)]).lines[0]
    assert path.read_bytes() == whole
    path.unlink()
    assert metadata.update([version(1)]).lines == (
        f"{path} is missing: rebuilt with 1 entry of the registry",
    )
    assert path.read_bytes() == whole


def test_a_folder_in_its_place_is_set_aside(metadata, path):
    path.mkdir()
    (line,) = metadata.update([version(1)]).lines
    assert "cannot be read" in line
    assert len(entries(path)) == 1


def test_an_edit_of_another_tool_meanwhile_is_not_lost(metadata, path, monkeypatch):
    metadata.update([version(1)])
    read, edits = module.updated_sharepoint_metadata, [1, 2]

    def edited(*given):
        found = read(*given)
        if edits:
            edit(path, mine=edits.pop())
        return found

    monkeypatch.setattr(module, "updated_sharepoint_metadata", edited)
    metadata.update([version(2)])
    assert [entry["mine"] for entry in entries(path)] == [1, 1]


def test_a_process_that_dies_before_the_rename_changes_nothing(metadata, path, monkeypatch):
    metadata.update([version(1)])
    path.write_bytes(b"damaged")

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            metadata.update([version(2)])
    assert path.read_bytes() == b"damaged"
    metadata.update([version(2)])
    assert [entry["openai_file_id"] for entry in entries(path)] == ["file-1", "file-2"]


def mapped(domain, text):
    """Write the map of the source."""
    folder = domain.every_source[0].folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vectorstore_map.csv").write_bytes(MAP.format(text).encode())


@pytest.mark.covers("R3-148")
def test_cleanup_removes_what_the_store_or_the_maps_lack(metadata, domain, path):
    metadata.update([version(1), version(2)])
    mapped(domain, f"file-2,{ROW.unique_id}\r\n")
    assert metadata.cleanup(lambda: {"file-2"}) == (0, 1, 1, ())
    assert [entry["openai_file_id"] for entry in entries(path)] == ["file-2"]
    path.write_bytes(b"")
    assert metadata.cleanup(lambda: {"file-2"})[:3] == (0, 0, 1)  # out of the registry
    mapped(domain, "")
    assert metadata.cleanup(lambda: {"file-2"}) == (0, 1, 0, ())
    assert entries(path) == []


@pytest.mark.parametrize("text", ["file-1,b!abc123", "a\r\n", 'file-1,"b\r\n'])
def test_cleanup_is_refused_without_each_map(metadata, domain, path, text):
    metadata.update([version(1)])
    before = path.read_bytes()
    with pytest.raises(SourceError, match=r"cannot be read \(No such file.*nothing was removed"):
        metadata.cleanup(set)
    mapped(domain, text)
    with pytest.raises(SourceError, match=r"is damaged.*nothing was removed"):
        metadata.cleanup(set)
    (domain.every_source[0].folder / "vectorstore_map.csv").write_bytes(b"other\r\n")
    with pytest.raises(SourceError, match="has no column sharepoint_unique_file_id"):
        metadata.cleanup(set)
    assert path.read_bytes() == before


def test_cleanup_is_refused_without_the_end_of_the_list_or_a_source(metadata, domain, path):
    metadata.update([version(1)])
    before = path.read_bytes()
    mapped(domain, "")

    def cut():
        raise PushError("the list has no end")

    with pytest.raises(PushError):
        metadata.cleanup(cut)
    object.__setattr__(domain, "every_source", ())
    with pytest.raises(SourceError, match="declares no source"):
        metadata.cleanup(set)
    assert path.read_bytes() == before

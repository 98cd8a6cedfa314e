"""``files_metadata.json``: its fields, its history, and the properties of other tools (R3.17)."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.sources.sharepoint.metadata import (
    STANDARD_FIELDS,
    EmbeddedVersion,
    carry_over_sharepoint_properties,
    cleaned_sharepoint_metadata,
    read_sharepoint_metadata,
    sharepoint_metadata_entry,
    sharepoint_metadata_looks_whole,
    updated_sharepoint_metadata,
    write_sharepoint_metadata,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

SOURCE = SharepointSource(
    name="DOMAIN01.source01",
    domain="DOMAIN01",
    source_id="source01",
    source_type=SourceType.FILES,
    site_url="https://contoso.sharepoint.com/sites/Example",
    url_part="/Shared Documents",
    storage=Path("storage"),
)
ROW = LibraryRow(
    5, 123, "b!abc123", "Document.DOCX", "/sites/Example/Shared Documents/Reports/Document.DOCX",
    864_368, 1_705_314_600_000_001, "02_embedded/Reports/Document.DOCX", 1, None, None,
)  # fmt: skip
EMBEDDED = "2024-01-16T14:20:00.000000Z"
FILE = EmbeddedVersion("file-1", "vs_1", EMBEDDED, SOURCE, ROW)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
_KEYS = st.text().filter(lambda key: key not in STANDARD_FIELDS)
CUSTOM = st.dictionaries(_KEYS, VALUES, max_size=3)


@pytest.mark.covers("R3-142", "R3-143", "R3-144")
def test_an_entry_has_the_fifteen_fields_of_the_example_in_its_order():
    entry = sharepoint_metadata_entry(FILE)
    assert list(entry.items()) == [
        ("sharepoint_listitem_id", 123),
        ("sharepoint_unique_file_id", "b!abc123"),
        ("openai_file_id", "file-1"),
        ("file_relative_path", "DOMAIN01\\01_files\\source01\\02_embedded\\Reports\\Document.DOCX"),
        ("url", "https://contoso.sharepoint.com/sites/Example/Shared%20Documents/Reports/"
                "Document.DOCX"),
        ("raw_url", "https://contoso.sharepoint.com/sites/Example/Shared Documents/Reports/"
                    "Document.DOCX"),
        ("server_relative_url", "/sites/Example/Shared Documents/Reports/Document.DOCX"),
        ("filename", "Document.DOCX"),
        ("file_type", "docx"),
        ("file_size", 864_368),
        ("last_modified_utc", "2024-01-15T10:30:00.000001Z"),
        ("last_modified_timestamp", 1_705_314_600),
        ("embedded_utc", EMBEDDED),
        ("source_id", "source01"),
        ("source_type", "file_sources"),
    ]  # fmt: skip
    assert tuple(entry) == STANDARD_FIELDS
    assert len(STANDARD_FIELDS) == 15


def test_an_item_of_a_list_has_the_address_of_its_form_and_may_have_no_file():
    source = SOURCE.model_copy(update={"source_type": SourceType.LISTS, "url_part": ""})
    row = ROW._replace(server_relative_url="/sites/Example/Lists/My tasks/3.md", path=None)
    entry = sharepoint_metadata_entry(FILE._replace(source=source, row=row))
    url = "https://contoso.sharepoint.com/sites/Example/Lists/My tasks/DispForm.aspx?ID=123"
    assert (entry["url"], entry["raw_url"]) == (url.replace(" ", "%20"), url)
    assert (entry["file_relative_path"], entry["source_type"]) == ("", "list_sources")


@pytest.mark.covers("R3-40", "R3-146")
@given(
    st.lists(st.tuples(CUSTOM, st.sampled_from(["", "2024", "2025", None, 7])), max_size=4), CUSTOM
)
def test_the_properties_of_the_entry_that_was_embedded_last_are_carried_over(previous, own):
    entries = [
        {"filename": "old", **custom} | ({} if at is None else {"embedded_utc": at})
        for custom, at in previous
    ]
    new = {"filename": "new", "openai_file_id": "b", **own}
    carried = carry_over_sharepoint_properties(new, entries)
    assert {key: carried[key] for key in new} == new
    assert list(carried)[: len(new)] == list(new)

    def time(entry):
        at = entry.get("embedded_utc", "")
        return at if isinstance(at, str) else ""

    latest = max(map(time, entries), default="")
    source = next((entry for entry in entries if time(entry) == latest), {})
    extra = {key: value for key, value in carried.items() if key not in new}
    assert extra == {
        key: value for key, value in source.items() if key not in STANDARD_FIELDS and key not in new
    }


_IDS = st.sampled_from(["a", "B", "c"])
_FILES = st.lists(st.tuples(st.sampled_from(["f1", "f2", "f3", "f4", "f5"]), _IDS), max_size=8)


def _embedded(files):
    return [
        FILE._replace(openai_file_id=id_, row=ROW._replace(unique_id=unique.lower()))
        for id_, unique in files
    ]


@pytest.mark.covers("R3-29", "R3-35", "R3-145", "R3-147")
@given(st.lists(st.tuples(_FILES, _IDS, CUSTOM), max_size=5), st.lists(CUSTOM, max_size=2))
def test_histories_keep_each_version_and_the_properties_of_its_file(history, foreign):
    entries = list(foreign)
    for files, edited, custom in history:
        before = [dict(entry) for entry in entries]
        entries = updated_sharepoint_metadata(entries, _embedded(files))
        assert entries[: len(before)] == before
        ids = [entry["openai_file_id"] for entry in entries[len(foreign) :]]
        assert len(ids) == len(set(ids))
        assert {id_ for id_, _ in files} <= set(ids)
        latest: dict[str, dict[str, object]] = {}
        for entry in before[len(foreign) :]:
            at = latest.get(entry["sharepoint_unique_file_id"])
            if at is None or entry["embedded_utc"] > at["embedded_utc"]:
                latest[entry["sharepoint_unique_file_id"]] = entry
        for entry in entries[len(before) :]:
            source = latest.setdefault(entry["sharepoint_unique_file_id"], entry)
            assert {k: v for k, v in entry.items() if k not in STANDARD_FIELDS} == {
                k: v for k, v in source.items() if k not in STANDARD_FIELDS
            }
        for entry in entries[len(foreign) :]:  # another tool sets properties
            if entry["sharepoint_unique_file_id"] == edited.lower():
                entry.update(custom)
    assert updated_sharepoint_metadata(entries, []) == entries


def test_unique_ids_of_other_programs_may_be_upper_case():
    before = [{"sharepoint_unique_file_id": "B!ABC123", "openai_file_id": "x", "tag": {"a": [1]}}]
    assert updated_sharepoint_metadata(before, [FILE])[1]["tag"] == {"a": [1]}


@pytest.mark.covers("R3-148")
def test_entries_that_the_store_or_every_map_lacks_go_and_those_of_other_tools_stay():
    def entry(file, unique):
        return {"openai_file_id": file, "sharepoint_unique_file_id": unique}

    foreign = [{"note": 1}, entry(None, "gone"), entry("", "gone"), {"openai_file_id": "f"}]
    kept = [entry("f", "U"), *foreign]
    gone = [entry("old", "u"), entry("f", "gone"), entry("old", "gone"), {"openai_file_id": "x"}]
    assert cleaned_sharepoint_metadata([*gone, *kept], {"f"}, {"u"}) == kept
    assert cleaned_sharepoint_metadata(kept, set(), {"u"}) == foreign[:-1]


@given(st.lists(CUSTOM, max_size=3))
def test_what_is_written_is_read(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("metadata") / "m.json"
    write_sharepoint_metadata(path, entries)
    assert read_sharepoint_metadata(path) == (entries, False, "")
    assert sharepoint_metadata_looks_whole(path)
    assert [each.name for each in path.parent.iterdir()] == ["m.json"]


def test_half_of_a_surrogate_pair_and_other_scripts_are_kept(tmp_path):
    path = tmp_path / "m.json"
    write_sharepoint_metadata(path, [{"a": "\ud800", "b": "Größe 😀"}])
    assert "Größe 😀" in path.read_text(encoding="utf-8")
    assert read_sharepoint_metadata(path).entries == [{"a": "\ud800", "b": "Größe 😀"}]


def test_a_byte_order_mark_is_no_damage(tmp_path):
    path = tmp_path / "m.json"
    path.write_bytes(b'\xef\xbb\xbf[{"a": 1}]')
    assert read_sharepoint_metadata(path).entries == [{"a": 1}]


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (b"", "not valid JSON"),
        (b'[{"a": 1}', "not valid JSON"),
        (b'[{"a": "\xff"}]', "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a": 1}', "not an array of objects"),
        (b'[{"a": 1}, 5]', "not an array of objects"),
    ],
)
def test_a_damaged_file_says_why(tmp_path, data, damage):
    path = tmp_path / "m.json"
    path.write_bytes(data)
    read = read_sharepoint_metadata(path)
    assert read.entries == []
    assert damage in read.damage
    assert not read.is_missing


def test_a_missing_file_and_a_folder(tmp_path):
    assert read_sharepoint_metadata(tmp_path / "m.json") == ([], True, "")
    assert "cannot be read" in read_sharepoint_metadata(tmp_path).damage
    for data in (b"", b"[", b"[{}", b"{}]"):
        (tmp_path / "m.json").write_bytes(data)
        assert not sharepoint_metadata_looks_whole(tmp_path / "m.json"), data
    assert not sharepoint_metadata_looks_whole(tmp_path / "none.json")


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.json"
    write_sharepoint_metadata(path, [{"a": 1}])
    with pytest.raises(TypeError):
        write_sharepoint_metadata(path, [{"a": object()}])
    assert json.loads(path.read_text()) == [{"a": 1}]
    (tmp_path / ".m.json.dead.writing").write_bytes(b"[")
    write_sharepoint_metadata(path, [{"a": 2}])
    assert [each.name for each in tmp_path.iterdir()] == ["m.json"]

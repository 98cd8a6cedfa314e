"""A stream of files_metadata.json yields what is read of it whole."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.sources.sharepoint import metadata
from smartcrawl.sources.sharepoint.metadata import (
    Entry,
    read_sharepoint_metadata,
    streamed_sharepoint_metadata,
)

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
_ENTRIES = st.lists(st.dictionaries(st.text(max_size=9), _VALUES, max_size=4), max_size=6)


def read(path: Path) -> list[Entry] | None:
    """Return the entries of a stream; None: it is damaged."""
    try:
        return list(streamed_sharepoint_metadata(path))
    except ValueError:
        return None


@settings(max_examples=60)
@given(_ENTRIES, st.sampled_from((None, 1)), st.booleans(), st.integers(1, 40))
def test_the_entries_are_those_of_the_file_however_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    entries: list[Entry],
    indent: int | None,
    is_ascii: bool,
    block: int,
) -> None:
    path = tmp_path_factory.mktemp("metadata") / "files_metadata.json"
    text = json.dumps(entries, indent=indent, ensure_ascii=is_ascii)
    path.write_bytes(text.encode("utf-8-sig", "backslashreplace"))
    expected = read_sharepoint_metadata(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "_BLOCK", block)
        assert read(path) == (None if expected.damage else expected.entries)


@pytest.mark.parametrize(
    "text",
    ["", " ", "[", "[{}", "[{},", "[{},]", "[,{}]", "[{} {}]", "[{}]]", "[{}] x", "{}", "[1]",
     "[12, {}]", "[[]]", '[{"a": 1,}]', '[{"a": "', "null", "[" * 100_000, "\ufeff[{}]x"],
)  # fmt: skip
def test_damage_is_seen(tmp_path: Path, text: str) -> None:
    path = tmp_path / "files_metadata.json"
    path.write_text(text, encoding="utf-8")
    assert read_sharepoint_metadata(path).damage
    assert read(path) is None


def test_bytes_that_are_no_utf8_are_damage(tmp_path: Path) -> None:
    path = tmp_path / "files_metadata.json"
    path.write_bytes(b'[{"a": "\xff"}]')
    assert read(path) is None


def test_spaces_around_the_array_are_none(tmp_path: Path) -> None:
    path = tmp_path / "files_metadata.json"
    path.write_text(" \n[ ] \n", encoding="utf-8")
    assert read(path) == []

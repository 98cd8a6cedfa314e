"""Files of a library on disk: byte for byte, below their folder, by no symlink (R3-108, R3-123)."""

import os
from pathlib import Path

import pytest

from smartcrawl.registry.library.folder import LibraryFolder

MODIFIED = 1_700_000_000_123_456


@pytest.fixture
def folder(tmp_path: Path) -> LibraryFolder:
    return LibraryFolder(tmp_path / "library")


@pytest.mark.covers("R3-108", "R3-123")
def test_missing_folders_are_made_and_names_stay(folder: LibraryFolder) -> None:
    names = ("a/é.md", "a/e\u0301.md", "A/b.md", "a/b.md")
    for name in names:
        folder.write(name, name.encode(), MODIFIED)
        assert (folder.root / name).read_bytes() == folder.read(name) == name.encode()
        assert folder.facts(name) == (len(name.encode()), MODIFIED)
    assert {path for path, _, _ in folder.walk("a")} == {name for name in names if name[0] == "a"}


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "a//x", "", "a\0b", ".", "a/."])
def test_nothing_is_reached_outside(folder: LibraryFolder, path: str) -> None:
    folder.write("a/b", b"", MODIFIED)
    for work in (
        lambda: folder.write(path, b"x", MODIFIED),
        lambda: folder.read(path),
        lambda: folder.rename("a/b", path),
        lambda: folder.rename(path, "a/b"),
    ):
        with pytest.raises(OSError, match=r"its path|a part of its path"):
            work()
    assert folder.facts(path) is None


def test_no_symlink_is_followed(folder: LibraryFolder, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    folder.write("a/b", b"x", MODIFIED)
    (folder.root / "link").symlink_to(outside)
    (folder.root / "a" / "file").symlink_to(outside / "secret")
    os.mkfifo(folder.root / "a" / "fifo")
    for path in ("link/secret", "a/file"):
        assert folder.facts(path) is None
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            folder.read(path)
        with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
            folder.write(path, b"x", MODIFIED)
    with pytest.raises(OSError, match="is not a file"):
        folder.read("a/fifo")
    assert {path for path, _, _ in folder.walk("a")} == {"a/b", "a/file", "a/fifo"}
    assert folder.remove("a/file")
    assert (outside / "secret").read_bytes() == b"secret"


def test_folders_go_with_their_last_file(folder: LibraryFolder) -> None:
    folder.write("02_embedded/a/b/c", b"", MODIFIED)
    folder.write("02_embedded/a/d", b"", MODIFIED)
    assert folder.remove("02_embedded/a/b/c")
    assert not (folder.root / "02_embedded" / "a" / "b").exists()
    assert folder.remove("02_embedded/a/d")
    assert list(folder.root.rglob("*")) == [folder.root / "02_embedded"]
    assert not folder.remove("02_embedded/a/d")

"""A library's folder whose changes are only kept in memory."""

from pathlib import Path

import pytest

from smartcrawl.registry.library.folder import OverlaidFolder

_TIME = 1_700_000_000_000_000  #: Unix microseconds


@pytest.fixture
def folder(tmp_path: Path) -> OverlaidFolder:
    (tmp_path / "top" / "a").mkdir(parents=True)
    (tmp_path / "top" / "a" / "one.txt").write_bytes(b"one")
    (tmp_path / "top" / "two.txt").write_bytes(b"two!")
    (tmp_path / "top" / "link").symlink_to("two.txt")
    return OverlaidFolder(tmp_path)


def sizes(folder: OverlaidFolder) -> dict[str, int]:
    return {path: size for path, size, _ in folder.walk("top", tidies=True)}


def test_a_renamed_file_has_its_bytes_under_the_new_name_alone(folder: OverlaidFolder):
    folder.rename("top/a/one.txt", "top/three.txt")

    assert folder.read("top/three.txt") == b"one"
    assert folder.facts("top/a/one.txt") is None
    with pytest.raises(FileNotFoundError):
        folder.read("top/a/one.txt")
    with pytest.raises(FileNotFoundError):
        folder.rename("top/a/one.txt", "top/four.txt")
    assert sizes(folder) == {"top/three.txt": 3, "top/two.txt": 4, "top/link": 7}
    assert (folder.root / "top/a/one.txt").read_bytes() == b"one"


def test_names_are_exchanged(folder: OverlaidFolder):
    folder.rename("top/a/one.txt", "aside/x")
    folder.rename("top/two.txt", "top/a/one.txt")
    folder.rename("aside/x", "top/two.txt")

    assert (folder.read("top/a/one.txt"), folder.read("top/two.txt")) == (b"two!", b"one")
    assert sizes(folder) == {"top/a/one.txt": 4, "top/two.txt": 3, "top/link": 7}


def test_a_file_is_renamed_over_another_and_back(folder: OverlaidFolder):
    folder.rename("top/a/one.txt", "top/two.txt")
    assert sizes(folder) == {"top/two.txt": 3, "top/link": 7}

    folder.rename("top/two.txt", "top/a/one.txt")

    assert sizes(folder) == {"top/a/one.txt": 3, "top/link": 7}


def test_removed_files_and_links_are_gone_once(folder: OverlaidFolder):
    for path in ("top/two.txt", "top/link"):
        assert folder.remove(path)
        assert not folder.remove(path)
    assert not folder.remove("top/none/at/all")
    assert sizes(folder) == {"top/a/one.txt": 3}
    assert (folder.root / "top/two.txt").exists()
    assert (folder.root / "top/link").is_symlink()


def test_a_date_follows_its_file(folder: OverlaidFolder):
    real = (folder.root / "top/two.txt").stat().st_mtime_ns
    folder.stamp("top/two.txt", _TIME)
    assert folder.facts("top/two.txt") == (4, _TIME)

    folder.rename("top/two.txt", "top/three.txt")

    assert folder.facts("top/three.txt") == (4, _TIME)
    assert ("top/three.txt", 4, _TIME) in list(folder.walk("top"))
    folder.stamp("top/a/one.txt", _TIME)
    assert ("top/a/one.txt", 3, _TIME) in list(folder.walk("top"))
    assert (folder.root / "top/two.txt").stat().st_mtime_ns == real


def test_nothing_is_written_or_tidied(folder: OverlaidFolder):
    folder.write("top/new.txt", b"new", _TIME)
    (folder.root / "top" / "empty").mkdir()
    folder.tidy("top/empty/file")
    list(folder.walk("top", tidies=True))

    assert (folder.root / "top" / "empty").is_dir()
    assert not (folder.root / "top" / "new.txt").exists()

"""Files and folders that appear whole or not at all."""

import os
import stat

import pytest

from smartcrawl.commands.registry import _opened
from smartcrawl.terminal.whole_places import (
    MARK,
    PlaceError,
    whole_output_file,
    whole_output_folder,
)

#: The first line of an export.
ROW = (
    '{"id": "a", "source": "s", "url": "u", "title": "", "language": "", "lost": false,'
    ' "markdown": ""}\n'
)


def write(place, **files):
    with whole_output_folder(str(place)) as folder:
        for name, text in files.items():
            with folder.file(name) as file:
                file.write(text)


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != MARK}


def test_a_folder_appears_whole_and_replaces_an_earlier_export(tmp_path):
    place = tmp_path / "out"
    write(place, a="1", b="2")
    place.chmod(0o750)
    write(place, a="3")

    assert contents(place) == {"a": "3"}
    assert stat.S_IMODE(place.stat().st_mode) == 0o750
    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_that_is_not_written_to_its_end_changes_nothing(tmp_path):
    place = tmp_path / "out"
    write(place, a="1")

    def write_half():
        with whole_output_folder(str(place)) as folder:
            with folder.file("b") as file:
                file.write("half")
            assert contents(place) == {"a": "1"}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()

    assert contents(place) == {"a": "1"}
    assert os.listdir(tmp_path) == ["out"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    (tmp_path / ".out.part" / "deep").mkdir(parents=True)
    (tmp_path / ".out.part" / "half").write_text("x")

    write(tmp_path / "out", a="1")

    assert contents(tmp_path / "out") == {"a": "1"}
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("kind", [whole_output_folder, whole_output_file])
def test_a_part_that_is_replaced_meanwhile_does_not_become_the_result(tmp_path, kind):
    """ATT-70."""

    def write_and_swap():
        with kind(str(tmp_path / "out")):
            (part,) = tmp_path.iterdir()
            part.rename(tmp_path / "aside")
            part.mkdir() if kind is whole_output_folder else part.touch()

    with pytest.raises(PlaceError, match="another export writes there"):
        write_and_swap()

    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("before", [None, 0o777])
def test_no_result_is_writable_for_everybody(tmp_path, before):
    """ATT-70: whatever the umask is, and the earlier export was."""
    shared = tmp_path / "shared"
    shared.mkdir()
    if before is not None:
        write(shared / "folder", a="1")
        (shared / "folder").chmod(before)
    mask = os.umask(0)
    try:
        write(shared / "folder", a="1")
        with whole_output_file(str(shared / "file")) as file:
            file.write(ROW)
        with _opened(str(shared / "table")) as file:
            file.write("a,b")
    finally:
        os.umask(mask)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in shared.rglob("*")}
    assert modes == {
        "folder": 0o775, "a": 0o664, MARK: 0o664, "file": 0o664, "table": 0o664
    }  # fmt: skip


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "out").mkdir()

    write(tmp_path / "out", a="1")

    assert contents(tmp_path / "out") == {"a": "1"}


def refused(place, kind=whole_output_folder):
    with pytest.raises(PlaceError) as caught, kind(str(place)):
        pytest.fail("it was opened")
    return str(caught.value)


def test_folders_of_others_are_left_alone(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("x")
    write(tmp_path / "out", a="1")
    (tmp_path / "out" / "note").write_text("x")
    (tmp_path / "here" / "in").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "in")

    assert "has files, and is no export" in refused(tmp_path / "mine")
    assert "an export with files of others in it" in refused(tmp_path / "out")
    assert "it is a file" in refused(tmp_path / "mine" / "thesis")
    assert "the current folder" in refused(".")
    assert "the current folder" in refused(tmp_path / "here")
    assert "in a folder that exists" in refused(tmp_path / "none" / "out")
    assert "name a file or folder" in refused("/")
    assert (tmp_path / "mine" / "thesis").read_text() == "x"
    assert contents(tmp_path / "out") == {"a": "1", "note": "x"}
    assert sorted(os.listdir(tmp_path)) == ["here", "mine", "out"]


@pytest.mark.parametrize("text", ["a poem\n", '{"id": "a"}\n', "[1]", "[" * 100_000, "\n" + ROW])
def test_a_file_that_is_no_export_is_left_alone(tmp_path, text):
    place = tmp_path / "mine"
    place.write_text(text)

    refusal = f"cannot write {place}: the file is no export; move it, or name a new file"
    assert refused(place, whole_output_file) == refusal
    assert place.read_text() == text
    assert os.listdir(tmp_path) == ["mine"]


def test_a_file_that_appears_during_the_export_is_left_alone(tmp_path):
    place = tmp_path / "out.jsonl"

    def write_late():
        with whole_output_file(str(place)) as file:
            file.write(ROW)
            place.write_text("a poem")

    with pytest.raises(PlaceError, match="is no export"):
        write_late()

    assert place.read_text() == "a poem"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_an_empty_file_is_replaced(tmp_path):
    place = tmp_path / "out.jsonl"
    place.touch()

    with whole_output_file(str(place)) as file:
        file.write(ROW)

    assert place.read_text() == ROW


def test_a_part_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("x")
    (tmp_path / ".out.part").symlink_to("mine")
    (tmp_path / ".file.part").symlink_to("mine/thesis")
    (tmp_path / ".new.part").symlink_to("mine/new")

    write(tmp_path / "out", a="1")
    for name in ("file", "new"):
        with whole_output_file(str(tmp_path / name)) as file:
            file.write(ROW)
    assert contents(tmp_path / "out") == {"a": "1"}
    assert all((tmp_path / f".{name}.part").is_symlink() for name in ("out", "file", "new"))
    assert os.listdir(tmp_path / "mine") == ["thesis"]
    assert (tmp_path / "mine" / "thesis").read_text() == "x"


def test_parts_of_another_user_are_neither_taken_nor_foreseen(tmp_path, monkeypatch):
    """ATT-70: in a folder that both may write to."""
    (tmp_path / ".out.part").mkdir(mode=0o777)
    (tmp_path / ".file.part").write_text("theirs")
    (tmp_path / ".file.part").chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    names = set()

    for _ in range(2):
        with whole_output_folder(str(tmp_path / "out")) as folder:
            names.add(folder.path.name)
        with whole_output_file(str(tmp_path / "file")) as file:
            names |= {entry for entry in os.listdir(tmp_path) if entry.startswith(".file.")}
            file.write(ROW)

    assert (tmp_path / ".file.part").read_text() == "theirs"
    assert (tmp_path / ".out.part").is_dir()
    assert len(names - {".file.part"}) == 4, "each has another name"
    for made in (tmp_path / "out", tmp_path / "file"):
        assert not stat.S_IMODE(made.stat().st_mode) & stat.S_IWOTH


def test_the_list_of_records_takes_no_part_of_another_user(tmp_path, monkeypatch):
    """ATT-70."""
    (tmp_path / ".list.part").write_text("theirs")
    (tmp_path / ".list.part").chmod(0o666)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with _opened(str(tmp_path / "list")) as file:
        file.write("ours")

    assert (tmp_path / "list").read_text() == "ours"
    assert (tmp_path / ".list.part").read_text() == "theirs"
    assert sorted(os.listdir(tmp_path)) == [".list.part", "list"]


@pytest.mark.parametrize("kind", [whole_output_folder, whole_output_file])
def test_two_exports_do_not_write_to_one_place(tmp_path, kind):
    with kind(str(tmp_path / "out")):
        assert "another export writes there" in refused(tmp_path / "out", kind)

    assert os.listdir(tmp_path) == ["out"]


def test_a_folder_whose_parent_is_private_is_private(tmp_path):
    (tmp_path / "data").mkdir(mode=0o700)

    write(tmp_path / "data" / "out", a="1")
    with whole_output_file(str(tmp_path / "data" / "file")):
        pass

    assert stat.S_IMODE((tmp_path / "data" / "out").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "data" / "file").stat().st_mode) == 0o600


def test_a_file_appears_whole_and_replaces_an_earlier_one(tmp_path):
    place = tmp_path / "out.jsonl"
    place.write_text(ROW)

    def write_half():
        with whole_output_file(str(place)) as file:
            file.write("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert place.read_text() == ROW
    (tmp_path / ".out.jsonl.part").write_text("left by a killed process")

    with whole_output_file(str(place)) as file:
        file.write("new")

    assert place.read_text() == "new"
    assert os.listdir(tmp_path) == ["out.jsonl"]
    assert "it is not a file" in refused("/dev/null", whole_output_file)
    assert "it is not a file" in refused(tmp_path, whole_output_file)

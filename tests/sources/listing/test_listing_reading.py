"""Reading below a root: no link, no other thing, and never a mixture of two states."""

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from smartcrawl.extract.hashes import body_hash
from smartcrawl.model.exceptions import ChangedWhileReadError, FileTooLargeError, StoreAwayError
from smartcrawl.sources.listing.entries import FileValidator, ListingRules
from smartcrawl.sources.listing.reading import FileBody, hash_listed_file, read_listed_file
from tests.sources.listing.trees import (
    as_bound_user,
    chain,
    entries_of,
    listen,
    listing_of,
    on,
)

MOST = 1_000_000
NOON = 1_795_262_400_000_000_000  #: 2026-11-21 12:00 UTC, in nanoseconds


@pytest.fixture(params=["disk", "memory"])
def root(request, tmp_path):
    with on(request.param, tmp_path) as folder:
        yield folder


def read(root: Path, relative: str, most: int = MOST, **options) -> FileBody:
    """Read a file, and hash it, which must give the same."""
    body = read_listed_file(root, relative, most=most, **options)
    found = hash_listed_file(root, relative, **options)
    assert found == (body_hash(body.data), *body[1:])
    return body


def refused(root: Path, relative: str, error: type[Exception], why: str, **options) -> None:
    for use in (
        lambda: read_listed_file(root, relative, most=MOST, **options),
        lambda: hash_listed_file(root, relative, **options),
    ):
        with pytest.raises(error, match=why):
            use()


@pytest.mark.covers("R1-28")
@pytest.mark.parametrize("data", [b"", b"text", b"\0" * 3_000_000])
def test_bytes_come_back_with_the_validator_of_the_listing(root, data):
    (root / "a b").mkdir()
    (root / "a b/c\n\udcff.md").write_bytes(data)
    os.utime(root / "a b/c\n\udcff.md", ns=(NOON, NOON))
    (known,) = entries_of(listing_of(root))

    body = read(root, "a b/c\n\udcff.md", 3_000_000, known=known)

    assert body == (data, len(data), "2026-11-21T12:00:00.000000000Z", NOON // 10**9)
    assert body.validator == known.validator


@pytest.mark.parametrize("how", list(FileValidator))
def test_file_that_changed_since_the_listing_has_no_validator(root, how):
    path = root / "a.md"
    path.write_bytes(b"one")
    os.utime(path, ns=(NOON, NOON))
    (known,) = entries_of(listing_of(root, validator=how))
    assert read(root, "a.md", known=known, how=how).validator == known.validator
    assert (known.validator is None) is (how is FileValidator.HASH)
    assert read(root, "a.md", how=how).validator is None
    assert read(root, "a.md", known=known._replace(size=4), how=how).validator is None

    path.write_bytes(b"two")

    assert read(root, "a.md", known=known, how=how) == (
        b"two", 3, None, path.stat().st_mtime_ns // 10**9
    )  # fmt: skip


def test_racy_file_has_no_validator_when_it_is_read(root):
    (root / "a.md").write_bytes(b"one")
    (known,) = entries_of(listing_of(root, now_ns=(root / "a.md").stat().st_mtime_ns))
    assert read(root, "a.md", known=known).validator is None


# What is no file below the root


@pytest.mark.covers("R1-28")
def test_file_that_is_read_before_its_entry_has_the_validator_of_that_moment(root):
    """A run that is resumed reads what waits while its listing begins anew."""
    (root / "a.md").write_bytes(b"text")
    os.utime(root / "a.md", ns=(NOON, NOON))
    (known,) = entries_of(listing_of(root))

    def at(now_ns: int | None) -> str | None:
        return read_listed_file(root, "a.md", most=MOST, now_ns=now_ns).validator

    assert at(NOON + 2_000_000_000) == known.validator is not None
    assert at(NOON + 1_999_999_999) is None
    assert at(None) is None


def test_missing_file_is_missing_and_names_the_whole_path(root):
    (root / "sub").mkdir()
    (root / "a.md").touch()
    for relative in ("b.md", "sub/b.md", "gone/b.md", "a.md/b.md"):
        refused(root, relative, FileNotFoundError, re.escape(f"{root}/{relative}"))


def test_no_link_and_no_other_thing_is_opened(root, tmp_path):
    """ATT-44."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret")
    (root / "link.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "inner").symlink_to(".")
    (root / "a.md").write_text("x")
    (root / "sub").mkdir()
    os.mkfifo(root / "pipe.md")
    socket = listen(root / "socket.md")
    for relative in (
        "link.md", "folder/secret.md", "inner/a.md", "pipe.md", "socket.md", "sub"
    ):  # fmt: skip
        refused(root, relative, FileNotFoundError, "a link or something else in its place")
    socket.close()


def test_device_is_not_opened(monkeypatch):
    """To open one may already do something, such as rewinding a tape."""
    opened, real = [], os.open

    def seen(path, *given, **more):
        opened.append(path)
        return real(path, *given, **more)

    monkeypatch.setattr(os, "open", seen)
    refused(Path("/dev"), "null", FileNotFoundError, "something else in its place")
    assert set(opened) == {"/dev"}


def test_file_swapped_for_a_link_at_the_last_moment_is_not_read(root, tmp_path, monkeypatch):
    """The system is real, its moment is chosen: after the file was looked at."""
    (tmp_path / "outside.md").write_text("secret")
    (root / "a.md").write_text("mine")
    real = os.stat

    def swapping(path, *given, **more):
        found = real(path, *given, **more)
        if path == "a.md" and not (root / "a.md").is_symlink():
            (root / "a.md").unlink()
            (root / "a.md").symlink_to(tmp_path / "outside.md")
        return found

    monkeypatch.setattr(os, "stat", swapping)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it was read"))
    refused(root, "a.md", FileNotFoundError, "in its place")


@pytest.mark.parametrize(
    "relative",
    ["../a.md", "sub/../../a.md", "..", ".", "", "/etc/passwd", "sub//a.md", "sub/./a.md",
     "a.md\0", "sub/"],
)  # fmt: skip
def test_path_that_leads_out_of_the_root_is_refused(root, relative):
    """ATT-43."""
    (root / "sub").mkdir()
    (root / "sub/a.md").touch()
    (root.parent / "a.md").touch()
    refused(root, relative, PermissionError, "not a path below the root")
    refused(root, relative, PermissionError, "not a path below the root", follow_symlinks=True)
    (root.parent / "a.md").unlink()


def test_folder_swapped_for_a_link_after_the_listing_leads_nowhere(root, tmp_path):
    """ATT-44."""
    (root / "sub").mkdir()
    (root / "sub/a.md").write_text("mine")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.md").write_text("secret")
    (known,) = entries_of(listing_of(root))
    (root / "sub").rename(root / "old")
    (root / "sub").symlink_to(tmp_path / "outside")
    refused(root, "sub/a.md", FileNotFoundError, "in its place", known=known)


def test_links_are_read_where_they_are_followed_and_stay_below_the_root(root, tmp_path):
    (tmp_path / "outside.md").write_text("secret")
    (root / "sub").mkdir()
    (root / "sub/a.md").write_text("x")
    (root / "latest").symlink_to("sub")
    (root / "link.md").symlink_to("latest/a.md")
    (root / "out.md").symlink_to(tmp_path / "outside.md")
    (root / "self.md").symlink_to("self.md")
    known = entries_of(listing_of(root, ListingRules(follow_symlinks=True)))
    assert len(known) == 3
    for entry in known:
        relative = entry.url.removeprefix(f"file://{root}/")
        body = read(root, relative, known=entry, follow_symlinks=True)
        assert (body.data, body.validator) == (b"x", entry.validator)
    refused(root, "out.md", FileNotFoundError, "in its place", follow_symlinks=True)
    refused(root, "self.md", FileNotFoundError, "in its place", follow_symlinks=True)
    refused(root, "gone.md", FileNotFoundError, "in its place", follow_symlinks=True)


REFUSED = """
import sys
from smartcrawl.sources.listing.reading import hash_listed_file, read_listed_file
for relative in ("a.md", "sub/a.md"):
    for use in (lambda: read_listed_file(sys.argv[1], relative, most=9),
                lambda: hash_listed_file(sys.argv[1], relative)):
        try:
            use()
        except PermissionError as error:
            print(error.filename.removeprefix(sys.argv[1]))
"""


def test_file_or_folder_that_refuses_is_refused(root):
    (root / "sub").mkdir()
    for path in ("a.md", "sub/a.md"):
        (root / path).write_text("x")
    (root / "a.md").chmod(0)
    (root / "sub").chmod(0)
    lines = as_bound_user(REFUSED, root).splitlines()
    (root / "sub").chmod(0o755)
    assert lines == ["/a.md", "/a.md", "/sub/a.md", "/sub/a.md"]


def test_root_that_is_away_or_empty_says_nothing_about_its_files(root, tmp_path):
    away = r"mount it, or check that root names it"
    refused(root, "a.md", StoreAwayError, rf"{root} cannot be read \(it is empty\): {away}")
    refused(root, "sub/a.md", StoreAwayError, "it is empty")
    refused(root / "missing", "a.md", StoreAwayError, "No such file or directory")
    (root / "file").touch()
    refused(root / "file", "a.md", StoreAwayError, "Not a directory")
    refused(root, "a.md", FileNotFoundError, "a.md")


def test_file_at_a_depth_that_no_path_has_is_read(root):
    chain(root, 3_000, "ddd")
    body = read(root, "ddd/" * 3_000 + "last.md")
    subprocess.run(["rm", "-rf", "--", root / "ddd"], check=True)
    assert body.data == b""


# Size


def test_file_that_is_too_large_is_not_read(root, monkeypatch):
    (root / "a.md").write_bytes(b"x" * 100)
    assert read_listed_file(root, "a.md", most=100).data == b"x" * 100
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it was read"))
    with pytest.raises(FileTooLargeError) as caught:
        read_listed_file(root, "a.md", most=99)
    assert caught.value.size == 100
    assert str(caught.value) == (
        f"{root}/a.md has 100 bytes, and at most 99 are read: raise max_file_size, or exclude it"
    )


LARGE = """
import resource, sys
from smartcrawl.sources.listing.reading import hash_listed_file
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = hash_listed_file(sys.argv[1], "large.bin")
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(found.size, after - before, found.body_hash.hex())
"""


@pytest.mark.covers("R0-45")
def test_large_file_is_hashed_in_pieces(tmp_path):
    size = 300_000_001
    with (tmp_path / "large.bin").open("wb") as file:
        file.truncate(size)
    done = subprocess.run(
        [sys.executable, "-c", LARGE, tmp_path], capture_output=True, text=True, check=True
    )
    count, kibibytes, digest = done.stdout.split()
    hashed = hashlib.sha256()
    for _ in range(size // 1_000_000):
        hashed.update(bytes(1_000_000))
    hashed.update(bytes(1))
    assert (int(count), digest) == (size, hashed.hexdigest())
    assert int(kibibytes) < 20_000


# Files that change while they are read


class Writer:
    """Changes a file between the reads of it; the system is real, its moments are chosen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, change, times: int) -> None:
        self.change, self.left, self.reads = change, times, 0
        self.real = os.read
        monkeypatch.setattr(os, "read", self)

    def __call__(self, opened: int, count: int) -> bytes:
        data = self.real(opened, count)
        self.reads += 1
        if data and self.left:
            self.left -= 1
            self.change(self.left)
        return data


def grow(path: Path, n: int) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def truncate(path: Path, n: int) -> None:
    os.truncate(path, 10 + n)


def edit(path: Path, n: int) -> None:
    """Change bytes and not the size, with a date that differs by a nanosecond."""
    with path.open("r+b") as file:
        file.write(b"y")
    os.utime(path, ns=(NOON + n + 1, NOON + n + 1))


def edit_with_the_old_date(path: Path, n: int) -> None:
    with path.open("r+b") as file:
        file.write(b"%d" % n)
    os.utime(path, ns=(NOON, NOON))


def replace(path: Path, n: int) -> None:
    part = path.with_name("part")
    part.write_bytes(b"z" * 20)
    os.utime(part, ns=(NOON, NOON))
    part.rename(path)


CHANGES = pytest.mark.parametrize("change", [grow, truncate, edit, edit_with_the_old_date, replace])


@pytest.fixture
def path(root):
    found = root / "a.md"
    found.write_bytes(b"x" * 20)
    os.utime(found, ns=(NOON, NOON))
    return found


@CHANGES
def test_file_that_changes_while_it_is_read_is_read_once_more(path, change, monkeypatch):
    """ATT-45."""
    (known,) = entries_of(listing_of(path.parent))
    Writer(monkeypatch, lambda n: change(path, n), 1)
    body = read_listed_file(path.parent, "a.md", most=MOST, known=known)
    assert body.data == path.read_bytes()
    assert body.size == len(body.data)

    Writer(monkeypatch, lambda n: change(path, n), 1)
    assert hash_listed_file(path.parent, "a.md").body_hash == body_hash(path.read_bytes())


@CHANGES
def test_file_that_changes_again_is_given_up(path, change, monkeypatch):
    """ATT-45."""
    why = re.escape(f"{path} changed while it was read, twice: ")
    writer = Writer(monkeypatch, lambda n: change(path, n), 99)
    with pytest.raises(ChangedWhileReadError, match=why):
        read_listed_file(path.parent, "a.md", most=MOST)
    assert writer.reads <= 4
    with pytest.raises(ChangedWhileReadError, match=why):
        hash_listed_file(path.parent, "a.md")


def test_file_that_is_removed_while_it_is_read_is_missing(path, monkeypatch):
    (path.parent / "other.md").touch()
    Writer(monkeypatch, lambda n: path.unlink(), 1)
    with pytest.raises(FileNotFoundError, match=re.escape(str(path))):
        read_listed_file(path.parent, "a.md", most=MOST)


def test_file_that_ends_before_its_size_is_read_once_more(path, monkeypatch):
    """As from a file server whose cache is stale."""
    real, ends = os.read, [b""]
    monkeypatch.setattr(os, "read", lambda *given: ends.pop() if ends else real(*given))
    assert read_listed_file(path.parent, "a.md", most=MOST).data == b"x" * 20


def test_file_that_grows_without_end_is_read_to_its_size(path, monkeypatch):
    writer = Writer(monkeypatch, lambda n: grow(path, n), 10_000)
    with pytest.raises(ChangedWhileReadError):
        read_listed_file(path.parent, "a.md", most=MOST)
    assert writer.reads <= 6


def test_no_descriptor_stays_open(path, monkeypatch):
    before = os.listdir("/proc/self/fd")
    read(path.parent, "a.md")
    refused(path.parent, "b.md", FileNotFoundError, "b.md")
    refused(path.parent, "../b.md", PermissionError, "not a path")
    with pytest.raises(FileTooLargeError):
        read_listed_file(path.parent, "a.md", most=1)
    Writer(monkeypatch, lambda n: grow(path, n), 99)
    with pytest.raises(ChangedWhileReadError):
        read_listed_file(path.parent, "a.md", most=MOST)
    assert os.listdir("/proc/self/fd") == before

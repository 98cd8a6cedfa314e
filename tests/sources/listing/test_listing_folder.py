"""Listings of real trees: names, validators, things that are no files, parts that refuse."""

import errno
import os
import random
import re
import stat
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path

import pytest

from smartcrawl.rules.files import Check
from smartcrawl.sources.listing import folder as folder_module
from smartcrawl.sources.listing.entries import (
    BATCH,
    Entry,
    FileValidator,
    ListingRules,
    listed_file_time,
    source_entry_check,
)
from smartcrawl.sources.listing.folder import FolderListing
from tests.sources.listing.trees import (
    LATER,
    as_bound_user,
    chain,
    entries_of,
    files_below,
    listen,
    listing_of,
    names_of,
    on,
)

SECOND = 1_000_000_000  #: nanoseconds
NOON = 1_795_262_400 * SECOND  #: 2026-11-21 12:00 UTC
NAMES = [
    b"plain.md", b"a b.md", b"new\nline.md", b"esc\x1b[2J.md", b"tab\t.md", b"\xff.md",
    b"\xc3\xbc.md", b"u\xcc\x88.md", b"100%.md", b"a%41.md", b"#x?y=1&z.md", b"a:b@c;d,e.md",
    b"quote\"'<>.md", b"back\\slash.md", b"(*)[1]{2}.md", b"~a.md", b"c:.md", b"\x7f.md",
    b"n" * 252 + b".md", b"\xed\xa0\x80.md", b" .md", b"x..md", b"A.md", b"a.md",
]  # fmt: skip
PLACES = pytest.mark.parametrize("place", ["disk", "memory"])


@pytest.fixture
def tmp_path():
    """A folder on a disk, if the system has its temporary files there, also among --forks."""
    with tempfile.TemporaryDirectory(prefix="smartcrawl-listing-") as folder:
        yield Path(folder)


@pytest.fixture
def root(request, tmp_path):
    with on("disk", tmp_path) as folder:
        yield folder


def age(root: Path) -> None:
    """Give a folder and all folders below it an old date, so that each change shows."""
    for folder, _, _ in os.walk(root):
        os.utime(folder, ns=(NOON, NOON))


def write(path: Path | bytes, data: bytes = b"text", mtime_ns: int | None = None) -> None:
    with open(path, "wb") as file:
        file.write(data)
    if mtime_ns is not None:
        os.utime(path, ns=(mtime_ns, mtime_ns))


# Names


@pytest.mark.covers("R1-29", "R0-20")
@PLACES
def test_every_name_comes_back_exact(place, tmp_path):
    with on(place, tmp_path) as root:
        for folder in (b"", b"sub", b"sub/\xfe\n", b"sub/d e"):
            os.makedirs(os.path.join(os.fsencode(root), folder), exist_ok=True)
            for name in NAMES:
                write(os.path.join(os.fsencode(root), folder, name), name)
        listing = listing_of(root)

        entries = entries_of(listing)

        assert names_of(root, entries) == files_below(root)
        assert len(entries) == 4 * len(NAMES)
        assert listing.problems == []
        assert not listing.skipped
        for entry in entries:
            assert re.fullmatch(r"file:///[A-Za-z0-9\-._~!$&'()*+,;=:@/%]+", entry.url)
            assert not re.search(r"%(?![0-9A-F]{2})", entry.url)
        sizes = {os.path.basename(name): len(os.path.basename(name)) for name in NAMES}
        assert {entry.size for entry in entries} == set(sizes.values())


def test_url_has_the_bytes_of_a_name(root):
    write(os.fsencode(root) + b"/\xc3\xbc \xff\n%.md", b"")
    (entry,) = entries_of(listing_of(root))
    assert entry.url == f"file://{root}/%C3%BC%20%FF%0A%25.md"
    assert entry.size == 0


def test_root_may_be_written_with_more_slashes_or_be_the_root_of_the_machine(root):
    write(root / "a.md")
    (entry,) = entries_of(listing_of(f"/{root}//./"))
    assert entry.url == f"file://{root}/a.md"
    listing = FolderListing(
        "/", rules=ListingRules(exclude=("*/*",)), validator=FileValidator.MTIME, now_ns=NOON
    )
    assert all(re.match("file:///[^/]+$", entry.url) for entry in entries_of(listing))


# Validators


@pytest.mark.covers("R1-28")
@pytest.mark.parametrize(
    ("mtime_ns", "text", "seconds"),
    [
        (1_795_589_419_123_456_789, "2026-11-25T06:50:19.123456789Z", 1_795_589_419),
        (-1, "1969-12-31T23:59:59.999999999Z", -1),
        (-20_000_000 * SECOND, "1969-05-14T12:26:40.000000000Z", -20_000_000),
        (0, "1970-01-01T00:00:00.000000000Z", 0),
        (4_102_444_800_000_000_001, "2100-01-01T00:00:00.000000001Z", 4_102_444_800),
    ],
)
@PLACES
def test_validator_is_the_time_of_the_file_with_nanoseconds(
    place, mtime_ns, text, seconds, tmp_path
):
    with on(place, tmp_path) as root:
        write(root / "a.md", b"four", mtime_ns)
        url = f"file://{root}/a.md"
        late = entries_of(listing_of(root, now_ns=mtime_ns + LATER))
    assert late == [Entry(url, 4, text, seconds)]


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (-62_135_596_800 * SECOND, "0001-01-01T00:00:00.000000000Z"),
        (253_402_300_800 * SECOND - 1, "9999-12-31T23:59:59.999999999Z"),
        (-62_135_596_800 * SECOND - 1, None),
        (253_402_300_800 * SECOND, None),
        (2**63 * SECOND, None),
        (-(2**63) * SECOND, None),
    ],
)
def test_time_that_no_calendar_has_is_no_validator(at, text):
    assert listed_file_time(at) == text


@pytest.mark.covers("R1-28")
@pytest.mark.parametrize(
    ("age", "trusted"),
    [
        (2 * SECOND, True),
        (2 * SECOND - 1, False),
        (0, False),
        (-1, False),
        (-80 * 365 * 86_400 * SECOND, False),  # the clock was set back, or the file is of 2100
    ],
)
def test_fresh_date_and_date_of_the_future_are_not_trusted(root, age, trusted):
    write(root / "a.md", mtime_ns=NOON - age)
    (entry,) = entries_of(listing_of(root, now_ns=NOON))
    assert (entry.validator is not None) is trusted
    assert entry.modified_at == (NOON - age) // SECOND


def test_ctime_sees_an_edit_that_sets_the_date_back(root):
    write(root / "a.md", b"one", NOON)
    (by_mtime,) = entries_of(listing_of(root))
    (by_ctime,) = entries_of(listing_of(root, validator=FileValidator.CTIME))
    assert by_ctime.validator == listed_file_time(os.stat(root / "a.md").st_ctime_ns)
    assert by_ctime.modified_at == NOON // SECOND

    write(root / "a.md", b"two", NOON)

    assert entries_of(listing_of(root)) == [by_mtime]
    (again,) = entries_of(listing_of(root, validator=FileValidator.CTIME))
    assert again.validator != by_ctime.validator is not None


def test_fresh_ctime_is_not_trusted_whatever_the_date_is(root):
    write(root / "a.md", b"one", NOON - 10**18)
    changed = os.stat(root / "a.md").st_ctime_ns
    for age, trusted in ((2 * SECOND, True), (2 * SECOND - 1, False), (-1, False)):
        listing = listing_of(root, validator=FileValidator.CTIME, now_ns=changed + age)
        (entry,) = entries_of(listing)
        assert (entry.validator is not None) is trusted


def test_hash_trusts_no_date(root):
    write(root / "a.md", b"one", NOON)
    (entry,) = entries_of(listing_of(root, validator=FileValidator.HASH))
    assert (entry.validator, entry.modified_at) == (None, NOON // SECOND)


@pytest.mark.covers("R1-28", "R0-43", "R0-44")
def test_file_is_skipped_only_with_equal_date_and_size(root):
    def check() -> Check:
        (entry,) = entries_of(listing_of(root, now_ns=NOON + LATER))
        return source_entry_check(held.validator, held.size, entry)

    write(root / "a.md", b"one", NOON)
    (held,) = entries_of(listing_of(root, now_ns=NOON + LATER))
    assert check() is Check.SKIP
    write(root / "a.md", b"three", NOON)
    assert check() is Check.READ
    write(root / "a.md", b"two", NOON + 1)
    assert check() is Check.READ
    write(root / "a.md", b"two", NOON - 1)
    assert check() is Check.READ
    write(root / "a.md", b"one", NOON)
    assert check() is Check.SKIP
    held = held._replace(validator=None)
    assert check() is Check.READ


# Things that are no files


@PLACES
def test_what_is_no_file_is_counted_and_opened_by_nothing(place, tmp_path):
    with on(place, tmp_path) as root:
        write(root / "a.md")
        (root / "sub").mkdir()
        (root / "sub/link.md").symlink_to(root / "a.md")
        (root / "folder.link").symlink_to(root / "sub")
        (root / "broken.md").symlink_to("missing")
        (root / "self.md").symlink_to("self.md")
        (root / "up").symlink_to("..")
        os.mkfifo(root / "pipe.md")
        (root / ".hidden.md").write_text("x")
        (root / ".git").mkdir()
        (root / ".git/config").write_text("x")
        (root / "b.png").write_text("x")
        socket = listen(root / "socket.md")
        listing = listing_of(root)

        entries = entries_of(listing)

        socket.close()
        assert names_of(root, entries) == {b"a.md"}
    assert listing.problems == []
    assert listing.skipped == {
        "symlink": 5, "FIFO": 1, "socket": 1, "hidden": 2, "type without text": 1
    }  # fmt: skip


def test_devices_are_counted():
    listing = listing_of("/dev", ListingRules(exclude=("*/",)))
    entries_of(listing)
    devices = [path for path in Path("/dev").iterdir() if stat.S_IFMT(path.lstat().st_mode) in
               (stat.S_IFCHR, stat.S_IFBLK) and path.name[0] != "."]  # fmt: skip
    assert listing.skipped["device"] == len(devices) > 0


def test_only_what_the_rules_select_is_listed_and_no_other_folder_is_entered(root):
    for path in ("a.md", "a.txt", "docs/b.md", "docs/x/c.md", "drafts/d.md", ".h/e.md"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        write(root / path)
    listing = listing_of(root, ListingRules(include=("**/*.md",), exclude=("drafts/",)))
    assert names_of(root, entries_of(listing)) == {b"a.md", b"docs/b.md", b"docs/x/c.md"}
    assert listing.skipped == {"not included": 1, "excluded": 1, "hidden": 1}

    listing = listing_of(root, ListingRules(hidden=True, exclude=("docs/x",)))
    assert names_of(root, entries_of(listing)) == {
        b"a.md", b"a.txt", b"docs/b.md", b"drafts/d.md", b".h/e.md"
    }  # fmt: skip


# Links that are followed

FOLLOW = ListingRules(follow_symlinks=True)


def test_links_are_followed_below_the_root(root, tmp_path):
    write(root / "a.md", b"12345")
    (root / "docs").mkdir()
    write(root / "docs/b.md")
    (root / "docs/inner").mkdir()
    write(root / "docs/inner/c.md")
    (root / "link.md").symlink_to("docs/../a.md")
    (root / "latest").symlink_to(root / "docs")
    (root / "deep").mkdir()
    (root / "deep/er").symlink_to("../latest/inner")
    listing = listing_of(root, FOLLOW)

    entries = entries_of(listing)

    assert names_of(root, entries) == {
        b"a.md", b"link.md", b"docs/b.md", b"docs/inner/c.md", b"latest/b.md", b"deep/er/c.md"
    }  # fmt: skip
    assert {entry.size for entry in entries if entry.url.endswith("link.md")} == {5}
    assert listing.skipped == {"symlink to a folder that is listed already": 1}  # latest/inner
    assert listing.problems == []


def test_link_that_leaves_the_root_leads_nowhere(root, tmp_path):
    (tmp_path / "rooted").mkdir()
    write(tmp_path / "rooted/secret.md")
    (root / "a").symlink_to(tmp_path / "rooted")
    (root / "b.md").symlink_to("../rooted/secret.md")
    (root / "c.md").symlink_to("/etc/passwd")
    (root / "d").symlink_to("..")
    (root / "broken.md").symlink_to("missing")
    (root / "self.md").symlink_to("self.md")
    (root / "b2.md").symlink_to("b.md")
    os.mkfifo(root / "pipe.md")
    (root / "p.md").symlink_to("pipe.md")
    listing = listing_of(root, FOLLOW)

    assert entries_of(listing) == []

    assert listing.problems == []
    assert listing.skipped == {"symlink that leaves the root": 5, "broken symlink": 2, "FIFO": 2}


def test_circles_of_links_end(root):
    for name in ("a", "b", "c"):
        (root / name).mkdir()
        write(root / name / "f.md")
        for other in ("a", "b", "c"):
            (root / name / f"to-{other}").symlink_to(f"../{other}")
        (root / name / "to-root").symlink_to("..")
    listing = listing_of(root, FOLLOW)

    entries = entries_of(listing)

    names = names_of(root, entries)
    assert names == {
        b"a/f.md", b"b/f.md", b"c/f.md", b"a/to-b/f.md", b"a/to-b/to-c/f.md", b"b/to-a/f.md"
    }  # fmt: skip
    assert listing.problems == []
    assert [entry.url for entry in entries_of(listing_of(root, FOLLOW))] == [
        entry.url for entry in entries
    ]


# Parts that cannot be listed

BOUND = """
import sys
from tests.sources.listing.trees import entries_of, listing_of
listing = listing_of(sys.argv[1])
print(sorted(entry.url.removeprefix("file://" + sys.argv[1]) for entry in entries_of(listing)))
print(*sorted(listing.problems), sep="\\n")
"""


@pytest.mark.covers("R1-29")
def test_folder_that_refuses_is_a_problem_and_all_else_is_listed(root):
    for name in ("closed\n\x1b", "open", "names-only"):
        (root / name).mkdir()
        write(root / name / "a.md")
    write(root / "names-only/b.md")
    write(root / "unreadable.md")
    (root / "unreadable.md").chmod(0)
    (root / "closed\n\x1b").chmod(0)
    (root / "names-only").chmod(0o444)
    try:
        lines = as_bound_user(BOUND, root).splitlines()
    finally:
        for folder in root.iterdir():
            folder.chmod(0o755)

    assert lines == [
        "['/open/a.md', '/unreadable.md']",
        rf"{root}/closed\n\x1b (Permission denied; check what this user may do there)",
        f"{root}/names-only (2 files in it: Permission denied; check what this user may do there)",
    ]


@pytest.mark.covers("R1-29")
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda root: root.rmdir(), "No such file or directory; it is not there: create or mount"),
        (
            lambda root: (root.rmdir(), root.write_text("x")),
            "Not a directory; a file is where a folder should be: move it away, or name another",
        ),
        (lambda root: (root.rmdir(), root.symlink_to(root)), "Too many levels of symbolic links"),
    ],
)
def test_root_that_is_away_or_a_file_is_a_problem(root, make, why):
    make(root)
    listing = listing_of(root)
    assert entries_of(listing) == []
    (problem,) = listing.problems
    assert problem.startswith(f"{root} ({why}")


def test_root_that_refuses_is_a_problem(root):
    root.chmod(0)
    lines = as_bound_user(BOUND, root).splitlines()
    root.chmod(0o755)
    assert lines == [
        "[]", f"{root} (Permission denied; check what this user may do there)"
    ]  # fmt: skip


def test_empty_root_is_no_problem_here(root):
    listing = listing_of(root)
    assert (entries_of(listing), listing.problems, listing.skipped) == ([], [], {})


def test_root_may_be_a_link(root, tmp_path):
    write(root / "a.md")
    (tmp_path / "link").symlink_to(root)
    (entry,) = entries_of(listing_of(tmp_path / "link"))
    assert entry.url == f"file://{tmp_path}/link/a.md"


@pytest.mark.covers("R1-29")
def test_disk_that_fails_in_the_middle_is_a_problem_of_its_folder_alone(root, monkeypatch):
    """The disk is a stand-in: an error of the system after the third name of one folder."""
    for name in ("bad", "good"):
        (root / name / "below").mkdir(parents=True)
        write(root / name / "below/z.md")
        for n in range(5):
            write(root / name / f"{n}.md")
    real, bad = os.scandir, os.stat(root / "bad").st_ino

    class Failing:
        def __init__(self, path):
            self.items, self.path, self.left = real(path), path, 3

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.items.close()

        def __iter__(self):
            return self

        def __next__(self):
            if os.fstat(self.path).st_ino == bad:
                self.left -= 1
                if self.left < 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
            return next(self.items)

    monkeypatch.setattr(os, "scandir", Failing)
    listing = listing_of(root)

    entries = entries_of(listing)

    assert listing.problems == [f"{root}/bad (Input/output error; check the disk or the mount)"]
    assert sum("/good/" in entry.url for entry in entries) == 6
    assert 2 <= sum("/bad/" in entry.url for entry in entries) <= 4


# Trees that change while they are listed


@pytest.fixture
def streamed(root):
    """A tree whose root gives a whole batch before any folder is entered."""
    for n in range(BATCH + 1):
        write(root / f"{n:04}.md")
    for name in ("x", "y"):
        (root / name).mkdir()
        write(root / name / "f.md")
    return root


def test_folder_swapped_for_a_link_meanwhile_leads_nowhere(streamed, tmp_path):
    (tmp_path / "outside").mkdir()
    write(tmp_path / "outside/secret.md")
    listing = listing_of(streamed)
    batches = listing.batches()
    assert len(next(batches)) == BATCH
    (streamed / "x").rename(tmp_path / "away")
    (streamed / "x").symlink_to(tmp_path / "outside")

    rest = [entry for batch in batches for entry in batch]

    assert names_of(streamed, rest) >= {b"y/f.md"}
    assert not any("secret" in entry.url for entry in rest)
    (problem,) = listing.problems
    assert problem.startswith(f"{streamed}/x (Not a directory; ")


def test_folder_removed_meanwhile_is_gone_without_a_problem(streamed):
    listing = listing_of(streamed)
    batches = listing.batches()
    next(batches)
    (streamed / "x/f.md").unlink()
    (streamed / "x").rmdir()
    assert len([entry for batch in batches for entry in batch]) == 2
    assert listing.problems == []
    assert listing.skipped == {"removed meanwhile": 1}


def test_listing_that_is_given_up_closes_its_folders(streamed):
    before = len(os.listdir("/proc/self/fd"))
    batches = listing_of(streamed).batches()
    next(batches)
    assert len(os.listdir("/proc/self/fd")) > before
    batches.close()
    assert len(os.listdir("/proc/self/fd")) == before


# Devices


@pytest.mark.covers("R1-29", "M-07")
def test_devices_below_the_root_are_noted():
    listing = FolderListing(
        "/", rules=ListingRules(exclude=("*/*/*",)), validator=FileValidator.MTIME, now_ns=NOON
    )
    entries_of(listing)
    assert listing.mounts["file:///proc/"] == os.stat("/proc").st_dev
    assert "file:///" not in listing.mounts
    inside = FolderListing(
        "/proc", rules=ListingRules(exclude=("*/",)), validator=FileValidator.MTIME, now_ns=NOON
    )
    entries_of(inside)
    assert inside.mounts == {"file:///proc/": os.stat("/proc").st_dev}


def test_folder_of_one_device_has_no_mounts(root):
    (root / "a").mkdir()
    write(root / "a/f.md")
    listing = listing_of(root)
    (entry,) = entries_of(listing)
    assert listing.mounts == {}
    assert listing.has(entry.url)
    (root / "a/f.md").unlink()
    assert not listing.has(entry.url)


# Depth, order, memory


@pytest.mark.long(but=1)
@PLACES
def test_deep_folder_is_no_trap(place, tmp_path):
    """A path of 12,000 bytes: no system call takes it."""
    with on(place, tmp_path) as root:
        chain(root, 3_000, "ddd", beside="e")
        before = len(os.listdir("/proc/self/fd"))
        listing, most, entries = listing_of(root), 0, []
        for batch in listing.batches():
            most = max(most, len(os.listdir("/proc/self/fd")) - before)
            entries += batch
        subprocess.run(["rm", "-rf", "--", *root.iterdir()], check=True)
    assert listing.problems == []
    assert len(entries) == 3_001
    assert len(max((entry.url for entry in entries), key=len)) > 12_000
    assert most < 40


def test_deep_problem_is_named_by_both_ends_of_its_path(root):
    chain(root, 60, "d" * 50)
    bottom = root / "/".join(["d" * 50] * 60)
    bottom.chmod(0)
    lines = as_bound_user(BOUND, root).splitlines()
    bottom.chmod(0o755)
    place, _, why = lines[1].partition(" (")
    assert why == "Permission denied; check what this user may do there)"
    assert len(place) == 1_001
    assert place.startswith(f"{root}/ddd")
    assert place.endswith("…" + str(bottom)[-500:])


def test_path_near_the_longest_is_listed(root):
    chain(root, 15, "d" * 250)
    (entry,) = entries_of(listing_of(root))
    assert len(entry.url) > 3_765
    assert len(os.fspath(root)) + 15 * 251 < 4_096


@pytest.mark.parametrize("put_back", ["another folder", "a link", "nothing"])
def test_folder_moved_away_from_above_the_listing_is_looked_for_again(root, tmp_path, put_back):
    """Of 60 folders on the way the upper ones are opened again: by then one is another one."""
    chain(root, 60, "d", beside="e")
    bottom = root / "/".join(["d"] * 60)
    (root / "d/d/f").mkdir()  # to be entered after it was moved, as is its neighbour
    for n in range(BATCH):
        write(bottom / f"{n}.md")
    age(root)
    listing = listing_of(root)
    batches = listing.batches()
    entries = next(batches)
    (root / "d/d").rename(tmp_path / "away")
    if put_back == "another folder":
        (root / "d/d/e").mkdir(parents=True)
        write(root / "d/d/e/f.md")
    elif put_back == "a link":
        (root / "d/d").symlink_to(tmp_path / "away")

    entries += [entry for batch in batches for entry in batch]

    assert listing.problems == []
    names = names_of(root, entries)
    assert {b"e/f.md", b"d/e/f.md"} <= names  # all else is listed
    assert (b"d/d/e/f.md" in names) is (put_back == "another folder")
    assert set(listing.skipped) == {"removed meanwhile"}


def test_folder_moved_away_from_above_the_second_pass_is_a_problem(root, tmp_path, monkeypatch):
    chain(root, 60, "d", beside="e")
    bottom = os.stat(root / "/".join(["d"] * 60)).st_ino
    age(root)
    real, looks = folder_module.folder_state, []

    def state(opened):
        if os.fstat(opened).st_ino == bottom:
            looks.append(opened)
            if len(looks) == 2:
                (root / "d/d").rename(tmp_path / "away")
        return real(opened)

    monkeypatch.setattr(folder_module, "folder_state", state)
    listing = listing_of(root)
    assert len(entries_of(listing)) == 61
    assert f"{root}/d/d (it was moved or replaced while it was listed; the next run lists it)" in (
        listing.problems
    )


@pytest.mark.covers("R1-29", "M-07")
def test_folder_renamed_before_its_turn_is_listed_by_its_new_name(streamed):
    """The root named it before: nothing at the old name proves no absence."""
    (streamed / "x/in").mkdir()
    write(streamed / "x/in/g.md")
    age(streamed)
    listing = listing_of(streamed)
    batches = listing.batches()
    entries = next(batches)
    (streamed / "x").rename(streamed / "k")

    entries += [entry for batch in batches for entry in batch]

    assert names_of(streamed, entries) == files_below(streamed)
    assert b"k/in/g.md" in files_below(streamed)
    assert listing.problems == []
    assert listing.skipped == {"removed meanwhile": 1}


@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize("what", ["a folder", "a file"])
def test_what_moves_to_where_the_listing_was_before_is_listed(root, what):
    """From a folder that was not read yet to one that was: no name leads to it but the new one."""
    for name in ("a", "b", "c/in"):
        (root / name).mkdir(parents=True)
        write(root / name / "f.md")
    write(root / "c/moved.md")
    for n in range(BATCH):
        write(root / "b" / f"{n}.md")
    age(root)
    listing = listing_of(root)
    batches = listing.batches()
    entries = next(batches)
    assert {b"a/f.md"} <= names_of(root, entries)
    if what == "a folder":
        (root / "c/in").rename(root / "a/in")
    else:
        (root / "c/moved.md").rename(root / "a/moved.md")

    entries += [entry for batch in batches for entry in batch]

    assert names_of(root, entries) == files_below(root)
    assert (listing.problems, listing.skipped) == ([], {})


def test_folder_of_a_fresh_date_is_listed_again(root, monkeypatch):
    """A change within the granularity of the date does not show in it."""
    write(root / "a.md")
    now = os.stat(root).st_mtime_ns
    real, listings = os.scandir, []

    def scandir(opened):
        listings.append(opened)
        return real(opened)

    monkeypatch.setattr(os, "scandir", scandir)
    for later, times in ((2 * SECOND, 1), (2 * SECOND - 1, 2), (0, 2)):
        listings.clear()
        assert len(entries_of(listing_of(root, now_ns=now + later))) == 1
        assert len(listings) == times


@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize("what", ["a folder", "a file"])
def test_what_is_gone_in_both_passes_is_a_problem(root, monkeypatch, what):
    write(root / "a.md")
    make, remove = (os.mkdir, os.rmdir) if what == "a folder" else (write, os.unlink)
    real = os.scandir

    class Passing:
        """A name that is there while the folder is listed."""

        def __init__(self, opened):
            self.opened = opened

        def __enter__(self):
            make(root / "b.md")
            with real(self.opened) as items:
                found = list(items)
            remove(root / "b.md")
            return iter(found)

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(os, "scandir", Passing)
    listing = listing_of(root)

    assert len(entries_of(listing)) == 1
    assert listing.problems == [
        f"{root} (what it names was gone a moment later, twice; crawl again when nothing is moved"
        " in it)"
    ]


def test_second_pass_follows_the_links_that_the_first_followed(root):
    for name in ("docs", "docs/in"):
        (root / name).mkdir()
        write(root / name / "f.md")
    (root / "a").symlink_to("docs")
    (root / "up").mkdir()
    (root / "up/to").symlink_to("../a/in")
    (root / "docs/circle").symlink_to("..")
    for n in range(BATCH):
        write(root / "up" / f"{n}.md")
    age(root)
    listing = listing_of(root, FOLLOW)
    batches = listing.batches()
    entries = next(batches)
    skipped = dict(listing.skipped)
    write(root / "docs/in/new.md")

    entries += [entry for batch in batches for entry in batch]

    assert {b"docs/in/new.md", b"a/in/new.md"} <= names_of(root, entries)
    assert listing.problems == []
    assert set(listing.skipped) == {"symlink to a folder that is listed already"} >= set(skipped)


def test_order_is_the_same_in_every_pass(root):
    drawn = random.Random(7)
    for n in range(300):
        folder = root / f"{drawn.randrange(20)}" / f"{drawn.randrange(5)}"
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / f"{n}.md")
    first = entries_of(listing_of(root, now_ns=NOON))
    assert len(first) == 300
    assert entries_of(listing_of(root, now_ns=NOON)) == first


@pytest.mark.long
def test_memory_does_not_grow_with_the_files(root):
    for n in range(20):
        (root / str(n)).mkdir()
        for m in range(500):
            write(root / str(n) / f"{m}.md", b"")
    listing = listing_of(root)
    list(listing_of(root / "0").batches())
    tracemalloc.start()
    seen = 0
    for batch in listing.batches():
        assert len(batch) <= BATCH
        seen += len(batch)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert seen == 10_000
    assert peak < 2_000_000, sys.getsizeof(batch)

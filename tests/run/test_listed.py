"""What a listing says of pinned files, and the reasons that it leaves a run incomplete."""

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.model.pages import ListedRecord
from smartcrawl.registry.library.items import Shortfall
from smartcrawl.registry.removal.purge import is_mount_reason
from smartcrawl.run.listed import ListedFiles
from smartcrawl.run.shortcomings import Shortcomings
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.listing.entries import Entry

SITE = "https://github.com/octo/docs"
PAGES = f"{SITE}/blob/HEAD"
HERE, GONE, OUT, WIKI = 1, 2, 3, 4  #: numbers of the pinned pages
PINNED = {
    HERE: f"{PAGES}/a.md", GONE: f"{PAGES}/gone.md", OUT: f"{PAGES}/old/b.md",
    WIKI: f"{SITE}/wiki/Setup",
}  # fmt: skip
ENTRY = Entry(PINNED[HERE], 5, "a" * 40, None)


def record(no: int) -> ListedRecord:
    return ListedRecord(no, "", "a" * 40, 5, 0, None, True, 0, 1, 0, False, None, 0)


def listed_files(stored: int = 0) -> ListedFiles:
    """The listing of a run over a repository with so many stored pages, in stand-ins."""
    records = {url: record(no) for no, url in PINNED.items()}
    known = [(f"{PAGES}/{no}.md", record(no)) for no in range(1, stored + 1)]
    parts: Any = {
        "opened": SimpleNamespace(no=2, forced=False, last_complete=1),
        "readers": SimpleNamespace(
            progress=None,
            pages=SimpleNamespace(
                pins=lambda: [(no, url, 0) for no, url in PINNED.items()],
                all_listed=lambda after, most: known[after:],
            ),
        ),
        "book": SimpleNamespace(
            stored_listed=lambda urls: {url: records[url] for url in urls if url in records}
        ),
        "offers": SimpleNamespace(
            numbers_by_identity=lambda urls: {}, offer=lambda some, depth: None
        ),
        "extractions": SimpleNamespace(stands=lambda record, url: True),
        "trust": SimpleNamespace(doubts_listed=lambda record: False),
        "batches": SimpleNamespace(confirm=lambda some: None, set_aside=lambda some: None),
        "shortcomings": Shortcomings(),
        "source": GithubSource(name="docs", url=SITE, exclude=("old/",)),
    }
    return ListedFiles(**parts)


def end(listed: ListedFiles, *problems: str) -> list[str]:
    """End the listing; return the reasons that the run is incomplete."""
    listing: Any = SimpleNamespace(problems=list(problems), skipped=Counter())
    listed.end(SITE, listing)
    return listed._shortcomings.reasons


@pytest.mark.covers("R1-31", "M-07")
def test_a_whole_listing_lacks_the_pinned_files_that_it_did_not_name():
    listed = listed_files()
    listed.take([ENTRY])
    assert not any(map(listed.lacks, PINNED)), "more may come"

    assert end(listed) == []

    assert [no for no in PINNED if listed.lacks(no)] == [GONE]
    assert listed.ended.is_set()


@pytest.mark.covers("M-07")
@pytest.mark.parametrize("why", ["a problem", "an error", "no entry"])
def test_another_listing_says_nothing_of_pinned_files(why: str):
    """Without an entry nothing was listed: its commit is that of the last run, or it is empty."""
    listed = listed_files()
    if why != "no entry":
        listed.take([ENTRY])
    if why == "an error":
        listed.fail(SITE, "it broke")
    else:
        end(listed, *(["octo/docs (HTTP status 500)"] if why == "a problem" else []))

    assert not any(map(listed.lacks, PINNED))
    assert listed.ended.is_set()


@pytest.mark.covers("M-07")
@pytest.mark.parametrize(
    ("whole", "trimmed", "proves"),
    [(True, False, True), (True, True, False), (False, False, False), (False, True, False)],
)
def test_a_file_without_an_entry_is_absent_where_the_listing_has_all(
    whole: bool, trimmed: bool, proves: bool
):
    """Not where the library counts more items than it lists."""
    listed = listed_files()
    listed.take([ENTRY])
    end(listed)
    listed.is_whole, listed.is_trimmed = whole, trimmed

    assert listed.proves_absence is proves
    assert listed.lacks(GONE) is proves


@pytest.mark.covers("R1-29", "M-07")
def test_each_part_that_is_not_listed_is_a_reason():
    listed = listed_files(stored=3)
    listed.take([ENTRY])
    assert end(listed, "/a (refused)", "/b (away)") == [
        "listing: /a (refused)", "listing: /b (away)"
    ]  # fmt: skip


@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize(
    ("stored", "why"),
    [(0, None), (1, "it has no file, and 1 file is stored"), (3, "and 3 files are stored")],
)
def test_an_empty_place_is_a_reason_where_files_are_stored(stored: int, why: str | None):
    listed = listed_files(stored)
    reasons = end(listed)
    assert [why in reason for reason in reasons] == ([True] if why else [])
    assert listed._shortcomings.is_empty is (stored == 0)


def test_an_empty_place_that_never_had_files_is_not_believed():
    listed: Any = listed_files()
    listed._opened.last_complete = 0
    assert end(listed) == []
    assert not listed._shortcomings.is_empty


# Libraries that count


@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize(
    ("accepted", "shortfall", "trimmed"),
    [
        (None, 0, False),
        (None, 3, False),  # the first count is accepted
        (3, 2, False),
        (3, 3, False),
        (3, 4, True),
        (0, 1, True),
        (3, None, False),  # it counts nothing now
    ],
)
def test_a_file_is_absent_unless_more_items_are_lacking_than_were_accepted(
    accepted: int | None, shortfall: int | None, trimmed: bool
):
    facts = None if accepted is None else Shortfall(accepted).stored()
    listed = files_listed("/docs", stored={1: f"{DOCS}/a.md"}, facts=facts)
    listed.take([Entry(f"{DOCS}/b.md", 5, "a" * 40, None)])

    note = listed.judge_shortfall("the library", library_entries(shortfall))

    listed.is_whole = True
    assert listed.is_trimmed is trimmed
    assert listed.proves_absence is not trimmed
    assert ("nothing is removed" in (note or "")) is trimmed
    stored = listed._batches.batch.listing
    assert (stored is None) is (shortfall is None)
    if stored is not None:
        kept = Shortfall.parsed(stored)
        assert kept.accepted == (accepted if trimmed else shortfall)
        assert kept.trimmed == (shortfall if trimmed else 0)


def test_a_library_without_any_item_is_a_problem_unless_its_count_confirms_that():
    for facts, shortfall, believed in (
        (Shortfall(0).stored(), 0, True), (None, 0, True), (None, 3, False), (None, None, False),
    ):  # fmt: skip
        listed = files_listed("/docs", stored={1: f"{DOCS}/a.md"}, facts=facts)
        listing = library_entries(shortfall)
        listed.judge_shortfall("the library", listing)
        assert (listing.problems == []) is believed, (facts, shortfall)


def library_entries(shortfall: int | None) -> Any:
    return SimpleNamespace(problems=[], shortfall=shortfall, skipped=0)


# Devices and stores

DOCS = "file:///docs"


def files_listed(root: str, *, stored: dict[int, str], facts: str | None = None) -> Any:
    """The listing of a run over files, with stored ones by number, in stand-ins."""
    listed: Any = listed_files()
    source = FilesSource(name="docs", root=root)
    again: Any = ListedFiles(
        **{
            "opened": listed._opened,
            "readers": SimpleNamespace(
                progress=SimpleNamespace(
                    listing=lambda: facts, held_files=lambda: iter(list(stored))
                ),
                pages=SimpleNamespace(
                    pins=list,
                    all_listed=lambda after, most: (
                        [(url, record(no)) for no, url in stored.items()] if not after else []
                    ),
                ),
            ),
            "book": SimpleNamespace(
                stored_listed=lambda urls: {
                    url: record(no) for no, url in stored.items() if url in urls
                }
            ),
            "offers": SimpleNamespace(
                numbers_by_identity=lambda urls: dict.fromkeys(urls, 99),
                offer=lambda some, depth: None,
            ),
            "extractions": SimpleNamespace(stands=lambda record, url: True),
            "trust": SimpleNamespace(doubts_listed=lambda record: False),
            "batches": SimpleNamespace(
                confirm=lambda some: None,
                set_aside=lambda some: None,
                batch=SimpleNamespace(listing=None),
            ),
            "shortcomings": Shortcomings(),
            "source": source,
        }
    )
    return again


@pytest.mark.covers("R1-29", "M-07")
@pytest.mark.parametrize(
    ("before", "now", "missing", "why", "kept"),
    [
        ({}, {"share/": 5}, 1, None, {"share/": 5}),
        ({"share/": 5}, {"share/": 5}, 1, None, None),  # files of it were deleted
        ({"share/": 5}, {}, 0, None, {}),  # its files are in the folder now
        ({"share/": 5}, {}, 1, "the device that was mounted there is not any more", None),
        ({"share/": 5}, {"share/": 6}, 1, "another device is mounted there", {"share/": 6}),
        ({"share/": 5}, {"share/": 6}, 0, None, {"share/": 6}),  # numbers may change by a reboot
        ({"other/": 5}, {}, 1, None, {}),  # no stored file is below it
        ({"": 5}, {}, 1, "the device that was mounted there", None),
    ],
)
def test_a_device_that_is_not_mounted_any_more_proves_no_absence(
    before: dict[str, int], now: dict[str, int], missing: int, why: str | None, kept: Any
):
    def urls(devices: dict[str, int]) -> dict[str, int]:
        return {f"{DOCS}/{name}": device for name, device in devices.items()}

    stored = {1: f"{DOCS}/share/a.md", 2: f"{DOCS}/share/b.md"}
    listed = files_listed("/docs", stored=stored, facts=json.dumps({"mounts": urls(before)}))
    listing: Any = SimpleNamespace(
        problems=[], mounts=urls(now), has=lambda url: not (missing and url.endswith("a.md"))
    )

    listed.judge_mounts(listing)

    assert len(listing.problems) == bool(why)
    for problem in listing.problems:
        assert why in problem
        assert is_mount_reason(f"listing: {problem}")
        assert problem.endswith(", and 1 file is missing)")
    stored_facts = listed._batches.batch.listing
    assert (stored_facts and json.loads(stored_facts)["mounts"]) == (
        None if kept is None else urls(kept)
    )


def test_a_listing_with_a_problem_leaves_the_known_devices():
    listed = files_listed("/docs", stored={}, facts=json.dumps({"mounts": {f"{DOCS}/": 5}}))
    listing: Any = SimpleNamespace(problems=["/docs (refused)"], mounts={}, has=None)
    listed.judge_mounts(listing)
    assert listed._batches.batch.listing is None


@pytest.mark.covers("R0-43", "M-07")
@pytest.mark.parametrize(
    ("root", "named", "lacks"),
    [
        ("s3://b/docs", ["s3://b/docs/a.md"], True),
        ("s3://b/docs", ["s3://b/docs/a.md", "s3://b/docs/b.md"], False),
        ("s3://b/docs", ["s3://b/docs/a.md", "s3://b/docs/new.md"], True),
        ("/docs", [f"{DOCS}/a.md"], False),  # a folder shows what moves by its dates
    ],
)
def test_the_listing_of_a_store_that_lacks_a_stored_file_is_known(root, named, lacks):
    start = DOCS if root == "/docs" else root
    stored = {1: f"{start}/a.md", 2: f"{start}/b.md", 3: "s3://b/elsewhere/c.md"}
    listed = files_listed(root, stored=stored)
    listed.take([Entry(url, 5, "a" * 40, None) for url in named])
    assert listed.lacks_some is lacks


@pytest.mark.covers("R0-43", "R0-44", "M-07")
@pytest.mark.parametrize(
    ("changed", "is_known"),
    [
        ({}, True),
        ({"run": 8}, False),  # a later one was complete
        ({"rules": "other globs"}, False),
        ({"text": None}, False),
        ({"forced": True}, False),
        ({"resumed": True}, False),
        ({"beyond": [f"{PAGES}/left.md"]}, False),
        ({"beyond": [f"{SITE}/wiki/Left"]}, True),  # no listing names it
        ({"lacking": PINNED[GONE]}, False),
        ({"lacking": PINNED[OUT]}, True),
    ],
)
def test_a_commit_is_known_only_where_its_listing_accounts_for_every_file(
    changed: dict[str, Any], is_known: bool
):
    listed, parts = listed_files(), {"run": 9, "rules": "rules", "beyond": [], **changed}
    stored = json.dumps({"run": parts["run"], "rules": parts["rules"], "facts": "facts"})
    own: Any = listed
    own._opened = SimpleNamespace(
        no=10, last_complete=9, forced="forced" in changed, resumed="resumed" in changed
    )
    own._progress = SimpleNamespace(
        listing=lambda: None if "text" in changed else stored,
        urls_beyond=lambda run: parts["beyond"],
    )
    records = {url: record(no) for no, url in PINNED.items() if url != changed.get("lacking")}
    own._book = SimpleNamespace(
        stored_listed=lambda urls: {url: records[url] for url in urls if url in records}
    )
    assert listed.known("rules") == ("facts" if is_known else None)

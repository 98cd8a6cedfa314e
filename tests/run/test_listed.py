"""What a listing says of pinned files, and the reasons that it leaves a run incomplete."""

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.model.pages import ListedRecord
from smartcrawl.run.listed import ListedFiles
from smartcrawl.run.shortcomings import Shortcomings
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

"""Plans of listed sources, entry by entry: what would be read and why, and what is no evidence."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smartcrawl import settings
from smartcrawl.extract.robots_txt import robots_txt_check
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.options import Options
from smartcrawl.registry.runs import runs
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.rules.model import Fault, Mode, Word
from smartcrawl.run.plan import plan_reports
from smartcrawl.sources.base import EXTRACTION_VERSION, Source, SourceExtractionConfig
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.listing.entries import Entry
from tests.registry.build import LONG, Desk, closing

ETAG = "2025-06-01T10:00:00.000000000Z"
SIZE = 1_234
FOLDER = FilesSource(name="docs", root="/srv/docs")
REPOSITORY = GithubSource(name="docs", url="https://github.com/octo/docs", wiki=False)
UNCHANGED = {"unchanged": 1}
CHANGED = "its validator or size changed"


class Told:
    """A listing with these entries, after which it may break."""

    def __init__(self, *entries: Entry, error: Exception | None = None) -> None:
        self.problems: list[str] = []
        self.skipped: Counter[str] = Counter()
        self._entries = entries
        self._error = error

    def batches(self) -> Iterator[list[Entry]]:
        yield list(self._entries)
        if self._error is not None:
            raise self._error


@pytest.fixture
def options(tmp_path: Path) -> Options:
    given = {"DATA_DIR": str(tmp_path), "MAX_UNVERIFIED_DAYS": 0}  # they were read long ago
    return Options.of(vars(settings) | given)


def stored(source: Source, options: Options) -> tuple[Desk, str]:
    """Index the one file of a source; return its URL, too."""
    desk = Desk()
    desk.closing = closing(is_listed=True)
    desk.open()
    url = f"{source.scope.root}/a.md"  # type: ignore[attr-defined]  # both have it
    number = desk.index(url, LONG, etag=ETAG, content_length=SIZE)
    wanted = SourceExtractionConfig.of(source, options).fingerprint(Mode.INDEX)
    found = runs.fingerprint_row_number(desk.connection, wanted, EXTRACTION_VERSION)
    desk.connection.execute("UPDATE record SET configuration = ? WHERE no = ?", (found, number))
    desk.seal()
    return desk, url


def plan(desk: Desk, source: Source, options: Options, listing: Told) -> dict[str, Any]:
    declared, numbers = {"docs": source}, {"docs": desk._run.source}
    read = RobotsOptions.of(settings.defaults)
    robots = RobotsOfSources(
        desk.connection, robots_txt_check, read, obeyed=False, jobs={}, sources={}
    )
    [found] = plan_reports(
        desk.connection, numbers, declared, options, robots, limit=9, listing=lambda source: listing
    )
    return found


@pytest.mark.covers("R0-43", "R0-44")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("", None),
        ("UPDATE record SET etag = 'x'", CHANGED),
        ("UPDATE record SET content_length = 1", CHANGED),
        ("UPDATE record SET configuration = 0", "extracted with other settings"),
        ("UPDATE record SET error_message = 'x'", "failed at its last visit"),
        ("UPDATE record SET redirect_target = 'x'", "failed at its last visit"),
        ("UPDATE state SET lost_count = 1", "failed at its last visit"),
        ("UPDATE state SET status = 1", "failed at its last visit"),
    ],
)
def test_a_listed_file_is_read_if_anything_about_it_differs(
    options: Options, change: str, why: str | None
):
    desk, url = stored(FOLDER, options)
    if change:
        desk.connection.execute(change)

    found = plan(desk, FOLDER, options, Told(Entry(url, SIZE, ETAG, None)))

    assert found["skips"] == (UNCHANGED if why is None else {})
    reasons = [one["why"] for one in found["asked"]]
    assert reasons == ([] if why is None else [why])


def test_a_snapshot_does_not_stand_for_a_file_under_other_settings(
    options: Options, tmp_path: Path
):
    desk, url = stored(FOLDER, options)
    desk.connection.execute("PRAGMA foreign_keys = OFF")
    desk.connection.execute("UPDATE record SET configuration = 0, snapshot = 1")
    stores = replace(options, snapshot_store=str(tmp_path))

    [asked] = plan(desk, FOLDER, stores, Told(Entry(url, SIZE, ETAG, None)))["asked"]

    assert asked["why"] == "extracted with other settings"


def test_a_file_without_a_validator_to_trust_is_read(options: Options):
    desk, url = stored(FOLDER, options)
    [asked] = plan(desk, FOLDER, options, Told(Entry(url, SIZE, None, None)))["asked"]
    assert asked["why"] == "no reliable validator in the listing"


def test_a_validator_that_is_a_hash_decides_alone(options: Options):
    for source, reads in ((REPOSITORY, 0), (FOLDER, 1)):
        desk, url = stored(source, options)
        found = plan(desk, source, options, Told(Entry(url, 1, ETAG, None)))
        assert found["asks"] == reads
        desk.close()


def test_a_file_that_this_version_cannot_read_is_not_read_again(options: Options):
    desk, url = stored(FOLDER, options)
    desk.connection.execute(
        "UPDATE record SET unread_extraction = ?, unread_etag = 'bad', unread_length = 7,"
        " error_message = 'x'",
        (EXTRACTION_VERSION,),
    )
    desk.connection.execute(
        "UPDATE state SET outcome = ?, http_status = ?", (int(Word.FAILED), int(Fault.CORRUPT))
    )
    same, other = Entry(url, 7, "bad", None), Entry(url, 7, "good", None)
    assert plan(desk, FOLDER, options, Told(same))["skips"] == UNCHANGED
    assert plan(desk, FOLDER, options, Told(other))["asks"] == 1


def test_a_listing_that_breaks_is_no_evidence_of_absence(options: Options):
    desk, _ = stored(FOLDER, options)
    error = SettingError("its driver is not installed")

    whole, broken = (
        plan(desk, FOLDER, options, Told(Entry(f"{FOLDER.scope.root}/b.md", 1, "x", 1), error=e))
        for e in (None, error)
    )

    assert (whole["removes"], whole["note"]) == ({"absent": 1}, None)
    assert broken["removes"] == {}
    assert broken["note"].startswith("cannot be listed: /srv/docs (its driver is not installed)")

"""The report of a library's steps for people: what is missing, and the command that goes on."""

from __future__ import annotations

import json
import re
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest

from smartcrawl import settings
from smartcrawl.commands import library_actions
from smartcrawl.commands.library import library_exit_status, print_library_report
from smartcrawl.model.exceptions import RunPausedError, SourceError
from smartcrawl.run.library.report import LibraryReport, paused_library_source_reason
from smartcrawl.run.library.result import Embedded, Integrity, LibraryResult
from smartcrawl.sources.sharepoint.domains import load_sharepoint_domain

_SOURCE = {
    "source_id": "one",
    "site_url": "https://contoso.sharepoint.com/sites/demo",
    "sharepoint_url_part": "/Shared Documents",
    "filter": "",
}


@pytest.fixture
def report(tmp_path: Path) -> LibraryReport:
    """The report of a domain with one library, to which nothing was done."""
    folder = tmp_path / "domains" / "D1"
    folder.mkdir(parents=True)
    domain = {"name": "Demo", "description": "", "file_sources": [_SOURCE]}
    text = json.dumps(domain | {"list_sources": [], "sitepage_sources": []})
    (folder / "domain.json").write_text(text, encoding="utf-8")
    return LibraryReport(load_sharepoint_domain(tmp_path, "D1"), "check", "incremental", "all")


def printed(
    report: LibraryReport, found: LibraryResult, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """Return the lines of a report whose only source came out so."""
    report.sources["one"] = found
    print_library_report(report, "table", ".smartcrawl")
    return capsys.readouterr().out.strip().splitlines()


def test_a_check_that_found_nothing_is_not_called_incomplete(
    report: LibraryReport, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = report.domain.sources("all", None)
    line = "Integrity check passed: 3 files verified"
    report.add(LibraryResult(source, reasons=[line]))

    lines = printed(report, report.sources["one"], capsys)

    assert lines == ["check of D1.one: complete", line]


def test_all_keys_of_a_result_have_one_style(report: LibraryReport) -> None:
    """As ``sourceId``, whichever step it is of, and over HTTP, which sends the same."""
    (source,) = report.domain.sources("all", None)
    report.add(LibraryResult(source, integrity=Integrity(missing_in_map=1)))
    report.add(LibraryResult(source, embedded=Embedded(vector_store_id="vs_1")))
    report.archive = "crawls/2026"

    shown = report.as_json()

    (one,) = shown["sources"]
    keys = [*shown, *one, *one["integrity"]]
    assert len(keys) > 30
    assert [key for key in keys if not re.fullmatch("[a-z]+([A-Z][a-z]+)*", key)] == []


def test_a_source_that_is_held_hides_no_failure(report: LibraryReport) -> None:
    (source,) = report.domain.sources("all", None)
    assert (report.is_incomplete, library_exit_status(report)) == (False, 0)
    report.skip(source, "another step is at it", is_held=True)
    assert (report.is_incomplete, library_exit_status(report)) == (True, 4)
    report.skip(source, "the library is gone")
    assert (report.is_incomplete, library_exit_status(report)) == (True, 3)


def test_what_a_download_lacks_comes_with_its_command(
    report: LibraryReport, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = report.domain.sources("all", None)
    found = LibraryResult(source, complete=False, runs=[7], failed=1, withheld=2)
    reason = "listing: https://a.example/[x] (HTTP status 429)"

    lines = printed(replace(report, action="download"), replace(found, reasons=[reason]), capsys)

    assert lines[2] == (
        f"not complete: {reason} (nothing is removed for missing from the listing; make "
        "the place readable and run again)"
    )
    assert lines[3].startswith("1 item failed; see the reasons with:  ")
    assert lines[3].endswith(" registry --outcome failed --source D1.one")
    assert lines[4].startswith("2 removals wait for approval. List them:  ")
    assert lines[4].endswith(" orphans --source D1.one")


def test_a_trimmed_listing_was_complete(
    report: LibraryReport, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = report.domain.sources("all", None)
    note = "trimmed: the library counts 1 item more than it lists"
    found = LibraryResult(source, reasons=[note])

    lines = printed(report, found, capsys)

    assert lines[1].startswith(f"{note} (the app may not see all items")


def test_a_download_that_was_interrupted_names_no_argument_that_it_lacks(
    report: LibraryReport, capsys: pytest.CaptureFixture[str]
) -> None:
    (source,) = report.domain.sources("all", None)
    found = LibraryResult(source, complete=False, runs=[7], reasons=["interrupted"])

    lines = printed(report, found, capsys)

    assert lines[-1] == "not complete: interrupted (the next download fetches the rest)"


def test_a_paused_source_names_a_command_that_goes_on_with_it():
    """The command library takes no -a."""
    reason = paused_library_source_reason(RunPausedError("DOMAIN01.source01", 7, "2026-01-01"))
    assert "run 7 of DOMAIN01.source01 is paused since 2026-01-01" in reason
    assert reason.endswith(" crawl sharepoint -a source=DOMAIN01.source01 -a resume=1")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(5, "Input/output error", "/x/a.csv"),
            "/x/a.csv cannot be used: Input/output error",
        ),
        (OSError("it is away"), "the storage cannot be used: it is away"),
    ],
)
def test_a_place_that_cannot_be_used_is_named(
    error: OSError, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(line: object) -> bool:
        raise error

    monkeypatch.setattr(library_actions, "OTHERS", {"export": (fails, 1, 1)})
    with pytest.raises(SourceError) as caught:
        library_actions.carry_out_library_command(["export", "D1"], settings.defaults, Namespace())
    assert str(caught.value) == told

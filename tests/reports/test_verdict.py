"""The verdict of `scrapy status`: whether a source is fresh, complete and healthy."""

from dataclasses import replace

import pytest

from smartcrawl.commands.status import Line, status_command_screen
from smartcrawl.reports.status import (
    Ages,
    Bytes,
    LastRun,
    SourceStatus,
    StatusReportChanges,
    StatusReportCounts,
    reported_concerns,
    status_report_verdict,
)
from smartcrawl.rules.model import RunState

NOW = 1_750_000_000
DAY = 86_400
RUN = LastRun(3, RunState.SWEPT, True, (), NOW - 100, NOW - 90, Bytes())
WELL = SourceStatus(
    "docs",
    StatusReportCounts(pages=100, indexed=95, error=5, held=95),
    Ages(median=DAY, most=2 * DAY, within_day=0.5, within_week=1.0),
    StatusReportChanges(),
    Bytes(),
    RUN,
    complete_run=3,
    completed_at=NOW - 90,
)


def text(**changed: object) -> str:
    return str(status_report_verdict(replace(WELL, **changed), NOW, longest=14 * DAY))


def test_a_source_without_trouble_is_all_three():
    assert text() == "fresh; complete; healthy"
    assert status_report_verdict(WELL, NOW, longest=14 * DAY).well


@pytest.mark.parametrize(
    ("most", "says"),
    [
        (14 * DAY, "fresh;"),
        (14 * DAY + 1, "not fresh: 5 % of the pages were not visited for 14 days;"),
        (None, "not fresh: nothing is stored;"),
    ],
)
def test_fresh(most: int | None, says: str):
    assert text(ages=Ages(DAY, most, 0.5, 1.0)).startswith(says)


def test_what_is_declared_no_more_is_not_fresh_and_names_the_remedy():
    status = replace(WELL, is_vanished=True)

    assert text(is_vanished=True) == (
        "not fresh: no longer declared, so no run visits it; complete; healthy"
    )
    (found,) = reported_concerns(status, NOW, longest=14 * DAY)
    assert found.text.startswith("no longer declared: its pages stay searchable, but are")
    assert found.command == ("forget", "--source", "docs")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"complete_run": None, "completed_at": None}, "; not complete: no run was complete yet;"),
        ({"last_run": replace(RUN, no=4, reasons=("not_due: 4",))}, "; complete;"),
        (
            {
                "last_run": replace(RUN, no=4, reasons=("not_due: 4",)),
                "completed_at": NOW - 15 * DAY,
            },
            "; not complete: the last complete run was 15 days ago;",
        ),
        (
            {"last_run": replace(RUN, no=4, reasons=("max_pages", "host_down: x", "max_pages: 2"))},
            "; not complete: max_pages, host_down;",
        ),
        (
            {"last_run": replace(RUN, no=4, state=RunState.OPEN, finished_at=None)},
            "; not complete: run 4 has not ended;",
        ),
        (
            {"last_run": replace(RUN, no=4, state=RunState.INTERRUPTED, reasons=("interrupted",))},
            "; not complete: interrupted;",
        ),
        (
            {"last_run": replace(RUN, no=4, state=RunState.INTERRUPTED, reasons=("paused",))},
            "; not complete: paused;",
        ),
        (
            {"last_run": replace(RUN, no=4, state=RunState.CANCELLED, reasons=("cancelled",))},
            "; not complete: cancelled;",
        ),
    ],
)
def test_complete(changed: dict[str, object], says: str):
    assert says in text(**changed)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        (StatusReportCounts(indexed=90, error=10), "healthy"),
        (StatusReportCounts(indexed=89, error=11), "not healthy: 11 % failed"),
        (StatusReportCounts(indexed=9, lost=1), "not healthy: 1 lost"),
        (
            StatusReportCounts(indexed=9, lost=1, withheld=1_234),
            "not healthy: 1 lost, 1,234 withheld",
        ),
    ],
)
def test_healthy(counts: StatusReportCounts, says: str):
    assert text(counts=counts).endswith(f"; {says}")


def blocks(count: int, *, ill: int = 0) -> list[list[Line]]:
    """Sources of ten lines; the last ``ill`` of them are not well."""
    found = []
    for n in range(count):
        color = "yellow" if n >= count - ill else "green"
        figures = [Line(name, "1") for name in ("pages", "held", "visited", "changes")]
        looks = [Line("look at", "one")] * 4
        found.append([Line("", f"source {n}"), Line("verdict", f"[{color}]x[/]"), *figures, *looks])
    return found


@pytest.mark.parametrize(
    ("count", "labels"),
    [
        (1, {"", "verdict", "pages", "held", "visited", "changes", "look at"}),
        (2, {"", "verdict", "pages", "held", "visited", "changes", "look at"}),
        (3, {"", "verdict", "pages", "look at"}),
        (6, {"", "verdict", "pages"}),
        (10, {"", "verdict"}),
        (40, {"", "verdict"}),
    ],
)
def test_the_status_fits_one_screen(monkeypatch: pytest.MonkeyPatch, count: int, labels: set[str]):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    given = blocks(count, ill=2 if count == 40 else 0)

    lines = [
        line
        for block in status_command_screen(given, given, "scrapy status --details")
        for line in block
    ]

    assert len(lines) < 24
    assert {line.label for line in lines} == labels
    assert (lines[-1].command == "scrapy status --details") is (count > 2)
    if count == 40:
        assert [line.text for line in lines[:4:2]] == ["source 38", "source 39"]
        assert lines[-2].text == "and 30 more sources, all of them fresh, complete and healthy"


@pytest.mark.parametrize(
    ("is_listed", "orphans", "no_text"),
    [
        (True, "in no listing and linked nowhere any more, or left out of the crawl", ""),
        (
            False,
            "no link leads there any more, or left out of the crawl",
            ", perhaps because scripts",
        ),
    ],
)
def test_concerns_of_a_listed_source_speak_of_its_listing(
    is_listed: bool, orphans: str, no_text: str
):
    counts = WELL.counts._replace(orphans=2, without_text=3)
    status = replace(WELL, counts=counts, is_listed=is_listed)
    first, second = (c.text for c in reported_concerns(status, NOW, longest=14 * DAY))
    assert first == f"2 orphaned: {orphans}"
    assert second.removesuffix(" write it in the browser") == f"3 without text{no_text}"


def test_a_site_whose_pages_mostly_lack_text_is_not_healthy_and_names_the_remedy():
    counts = WELL.counts._replace(without_text=48)
    assert text(counts=counts) == (
        "fresh; complete; not healthy: 48 of 95 pages without text, perhaps written by scripts:"
        " see docs/howto/javascript.md"
    )
    assert text(counts=counts._replace(without_text=47)).endswith("; healthy")
    assert text(counts=counts, is_listed=True).endswith("; healthy"), "its files are as they are"
    assert text(counts=WELL.counts._replace(held=0)).endswith("; healthy")


def test_pages_that_no_browser_showed_are_why_a_run_is_not_complete():
    run = replace(RUN, no=4, complete=False, reasons=("render: no browser",))
    says = "; not complete: scripts write its pages, and no browser showed them: see docs/howto/"
    assert says in text(last_run=run)
    assert says in text(last_run=run, complete_run=None, completed_at=None)

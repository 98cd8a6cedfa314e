"""The closing table: what a run did, whether it saw everything, and what to do next."""

import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from smartcrawl.commands.summary import print_crawl_summary
from smartcrawl.registry.library.items import TRIMMED
from smartcrawl.registry.runs.run_results import UNREAD, RunResult
from smartcrawl.reports.remedies import NOTES, REMEDIES, reported_remedy
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.model import Fault, RunOrder, Word
from smartcrawl.rules.run_orders import ORDER_REASONS
from smartcrawl.rules.seal import Evidence, reasons_against_seal
from smartcrawl.rules.traps import ENDLESS
from smartcrawl.run.batches import RunCounters
from smartcrawl.run.shortcomings import FAULTY
from smartcrawl.sources.kinds import FILES, SITE, Kind

RESULT = {
    "no": 7,
    "complete": True,
    "reasons": (),
    "counts": {"new": 1_234, "modified": 1},
    "started_at": 1_750_000_000,
    "finished_at": 1_750_000_042,
    "requests": 1_300,
    "conditional_requests": 60,
    "not_modified": 50,
    "bytes_downloaded": 1_234_567,
    "bytes_saved": 999,
    "visits": 1_300,
    "removed": 0,
    "withheld": 0,
    "reextracted": 0,
    "notes": (),
    "is_one_stored": True,
}
CODE = Path(__file__).parents[2] / "smartcrawl"
#: Calls that note why a run is incomplete, with the first word of the reason.
CALLS = r'(?:incomplete|shortcomings\.add)\(\s*f?"(\w+)'


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Print the summary of a run with these facts and return its text."""
    monkeypatch.setattr(sys, "argv", ["scrapy", "crawl", "site"])

    def shown(
        *,
        source: str = "docs",
        data_dir: str = ".smartcrawl",
        progress: RunCounters | None = None,
        orphan_threshold: int = 3,
        order: RunOrder | None = None,
        kind: Kind = SITE,
        ad_hoc: bool = False,
        seconds: int | None = None,
        registry: str | Path = Path("registry.db"),
        **changed: object,
    ) -> str:
        run = SimpleNamespace(
            seconds=seconds,
            result=RunResult(**(RESULT | changed)),
            source=SimpleNamespace(name=source, traits=kind, kinds=(kind,), ad_hoc=ad_hoc),
            options=SimpleNamespace(
                registry=registry,
                sweep_max_ratio=0.25,
                sweep_min_count=7,
                policy=Policy(orphan_threshold=orphan_threshold),
            ),
            halt=SimpleNamespace(order=order),
            batches=SimpleNamespace(progress=progress or RunCounters()),
        )
        print_crawl_summary(run, data_dir)
        return capsys.readouterr().out

    return shown


def test_the_place_of_the_pages_is_told(shown, monkeypatch: pytest.MonkeyPatch):
    assert "Stored in:" not in shown(data_dir="/state")
    monkeypatch.setattr(sys, "argv", ["smartcrawl", "crawl"])
    url = "postgresql://lamp:secret@db.example:5432/lamps"

    assert "Stored in:  /state\n" in shown(data_dir="/state")
    assert "Stored in:" not in shown(data_dir=str(Path(".smartcrawl").absolute()))
    assert "Stored in:  postgresql://lamp@db.example:5432/lamps\n" in shown(registry=url)


def test_a_complete_run_is_told_with_its_counts_and_savings(shown):
    lines = shown().splitlines()

    assert lines[1] == "Run 7 of docs: complete, 42 s"
    assert [line.split() for line in lines[2:5]] == [
        ["pages", "outcome"], ["1,234", "new"], ["1", "modified"],
    ]  # fmt: skip
    assert lines[5] == (
        "1,300 requests, 60 of them conditional, 50 answered 304; 1.2 MB downloaded, 999 B saved"
    )
    assert lines[6] == "Search it:  scrapy search --source docs 'your words'"


def test_requests_for_data_of_rendered_pages_are_counted_apart(shown):
    assert "rendered pages" not in shown()
    told = shown(data_requests=61, renderings=1)
    assert "\n1 rendering; 61 requests more, for data of rendered pages\n" in told
    assert "0 renderings; 1 request more, for data" in shown(data_requests=1)
    assert "2 renderings; 0 requests more, for data" in shown(renderings=2)


def test_where_no_page_is_stored_no_search_is_offered(shown):
    assert "Search it" not in shown(is_one_stored=False)


def test_a_source_of_which_nothing_is_stored_is_named_with_the_way_to_remove_it(shown):
    failed: dict[str, object] = {"complete": False, "reasons": ("no_pages",)}
    way = "Nothing was stored. To remove this source:  scrapy forget --source docs\n"

    empty: dict[str, object] = {"is_one_stored": False, "is_empty": True}
    assert way in shown(**failed, **empty, ad_hoc=True)
    assert "to remove" not in shown(**failed, is_one_stored=True, ad_hoc=True)
    assert "to remove" not in shown(**failed, is_one_stored=False, ad_hoc=True)
    assert "to remove" not in shown(**failed, **empty)
    assert "to remove" not in shown(complete=False, finished_at=None, **empty, ad_hoc=True)


def test_a_run_that_others_go_on_with_is_told_so(shown):
    lines = shown(finished_at=None, complete=False).splitlines()

    assert lines[1] == "Run 7 of docs continues without this worker; so far:"


@pytest.mark.parametrize(("order", "word"), ORDER_REASONS.items())
def test_a_run_that_an_order_ended_is_called_so(shown, order: RunOrder, word: str):
    lines = shown(complete=False, reasons=(word,), order=order).splitlines()
    left = shown(finished_at=None, complete=False, order=order).splitlines()

    assert lines[1] == f"Run 7 of docs: {word}, 42 s"
    remedy = {"paused": "continue with -a resume=1", "cancelled": "the next crawl starts a new run"}
    assert any(f"not complete: {word} (on request; {remedy[word]}" in line for line in lines)
    assert left[1] == f"Run 7 of docs will be {word} once its other workers have left it; so far:"
    assert lines[3].split() == ["1,234", "new"]


def test_words_stand_in_their_order_and_without_those_that_did_not_occur(shown):
    counts = {word.word: 2 for word in reversed(Word) if word is not Word.LOST}

    lines = shown(counts=counts).splitlines()[3 : 3 + len(counts)]
    words = [line.split()[-1] for line in lines]

    assert words == [word.word for word in Word if word is not Word.LOST]


def test_records_of_earlier_runs_are_left_out_and_those_asked_again_are_still_gone(shown):
    out = shown(
        counts={"unchanged": 1_297, "failed": 3, "gone": 2, "deleted": 4},
        earlier={"failed": 2, "gone": 2, "deleted": 4},
        still_gone=1,
        not_modified=1_297,
    )

    assert [line.split(maxsplit=1) for line in out.splitlines()[3:6]] == [
        ["1,297", "unchanged"], ["1", "failed"], ["1", "still gone"],
    ]  # fmt: skip
    assert "deleted" not in out
    assert "1 page failed in this run, 2 in earlier ones. List them:" in out


def test_failures_of_earlier_runs_do_not_hide_that_nothing_changed(shown):
    out = shown(counts={"unchanged": 2, "failed": 3}, earlier={"failed": 3}, not_modified=2)

    assert "Nothing changed: 2 of 1,300 pages returned 304" in out
    assert "failed" not in out


def test_an_unchanged_site_is_said_to_be_so(shown):
    told = "Nothing changed: all 1,300 pages returned 304; no content was written."

    assert told in shown(not_modified=1_300, counts={"unchanged": 1_300})
    assert "Nothing changed" not in shown(not_modified=1_299)  # the default has new ones
    with_sitemaps = shown(not_modified=1_300, counts={"unchanged": 1_299}, sitemaps=1)
    assert "Nothing changed: all 1,300 pages and sitemaps returned 304" in with_sitemaps


def test_a_dead_link_does_not_hide_that_nothing_changed_and_failures_of_most_pages_do(shown):
    dead = shown(not_modified=1_299, counts={"unchanged": 1_299, "failed": 1})
    half = shown(not_modified=650, counts={"unchanged": 650, "failed": 650})
    most = shown(not_modified=649, counts={"unchanged": 649, "failed": 651})

    assert "Nothing changed: 1,299 of 1,300 pages returned 304; no content was written." in dead
    assert "Nothing changed: 650 of 1,300 pages returned 304" in half
    assert "Nothing changed" not in most


def test_a_run_with_changes_does_not_say_that_nothing_changed(shown):
    for word in ("new", "modified", "clone", "lost"):
        counts = {"unchanged": 1_299, word: 1}
        assert "Nothing changed" not in shown(not_modified=1_299, counts=counts)
    beside = shown(not_modified=1_299, counts={"unchanged": 1_299, "excluded": 1})
    assert "Nothing changed: 1,299 of 1,300 pages returned 304; no content was written." in beside
    forced = shown(not_modified=0, counts={"unchanged": 1_300})
    assert "Nothing changed" not in forced


def test_a_run_that_visited_nothing_does_not_say_that_nothing_changed(shown):
    out = shown(visits=0, not_modified=0, complete=False, reasons=("no_pages",))

    assert "Nothing changed" not in out


def test_a_run_that_is_not_complete_does_not_say_that_nothing_changed(shown):
    out = shown(not_modified=1_300, complete=False, reasons=("max_pages",))

    assert "Nothing changed" not in out


@pytest.mark.parametrize("word", REMEDIES)
def test_each_reason_comes_with_what_to_do(shown, word: str):
    reason = {
        "seed_failed": "seed_failed: http://a.example/ (connection refused [111])",
        "unreachable": "unreachable: 3 of 9 visits",
        "pending": "pending: 5",
    }.get(word, word)

    out = shown(complete=False, reasons=(reason,))

    state = word if word in ORDER_REASONS.values() else "incomplete"
    assert f"Run 7 of docs: {state}, 42 s" in out
    assert f"not complete: {reason} ({reported_remedy(word, source='docs')})" in out


def test_the_remedy_of_a_login_names_the_table_of_the_source(shown):
    out = shown(complete=False, reasons=("login: refused (HTTP 401)",))

    assert "check the table [sources.docs.auth] and its secrets, then crawl again" in out


def test_a_healthy_due_crawl_is_not_called_incomplete(shown):
    out = shown(complete=False, reasons=("not_due: 5",))

    assert "Run 7 of docs: checked the pages that were due, 42 s" in out
    assert "left out: not_due: 5 (not due yet; this run does not count towards" in out
    assert "Run 7 of docs: incomplete" in shown(complete=False, reasons=("not_due: 5", "max_pages"))


def test_a_seed_whose_address_is_refused_comes_with_the_remedy_of_that_alone(shown):
    refused = "seed_failed: http://a.example/ (1109: permit its network with ALLOW_NETWORKS)"

    out = shown(complete=False, reasons=(refused,))

    [line] = [line for line in out.splitlines() if "seed_failed" in line]
    assert line == f"not complete: {refused}"


@pytest.mark.parametrize(
    ("cause", "why"),
    [
        ("login: refused (HTTP 401)", "the login failed"),
        ("render: no browser", "1114: render: no browser (no Chromium is on the PATH)"),
    ],
)
def test_a_seed_that_another_reason_explains_comes_without_a_remedy(shown, cause: str, why: str):
    reasons = (cause, f"seed_failed: http://a.example/ ({why})")

    out = shown(complete=False, reasons=reasons)

    assert (
        f"not complete: {cause} ({reported_remedy(cause.partition(':')[0], source='docs')})" in out
    )
    assert [line for line in out.splitlines() if "seed_failed" in line] == [
        f"not complete: {reasons[1]}"
    ]


def noted(pattern: str) -> set[str]:
    """The first words of what the code notes in places that look like this."""
    texts = [file.read_text("utf-8") for file in CODE.rglob("*.py")]
    return {word for text in texts for word in re.findall(pattern, text)}


def test_every_reason_that_a_run_can_have_has_a_remedy():
    found = reasons_against_seal(Evidence(("http://a.example/",), ("interrupted",), 0, 1, 1))
    told = {reason.partition(":")[0] for reason in found}

    assert {"max_pages", "host_down", "robots_unknown"} <= noted(CALLS)
    assert told | noted(CALLS) <= set(REMEDIES)


def test_the_reasons_of_the_manual_are_those_that_have_a_remedy():
    page = (CODE.parent / "docs" / "decisions.md").read_text("utf-8")
    table = page.partition("\n## When a run is complete\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"^\| `(\w+)", table, re.MULTILINE)) == set(REMEDIES)


# What was removed


def test_what_was_removed_is_told_with_the_command_that_brings_it_back(shown):
    out = shown(removed=1_234, data_dir="/my data/x")

    [line] = [line for line in out.splitlines() if "removed" in line]
    told, command = line.split(":  ")
    assert told == "1,234 removed. To bring them back"
    assert shlex.split(command) == ["scrapy", "undo", "-s", "DATA_DIR=/my data/x", "7"]


def test_what_is_withheld_is_told_with_the_limits_and_both_commands(shown):
    out = shown(withheld=1_234, source="127.0.0.1:8801")

    assert "1,234 removals are withheld:" in out
    assert (
        "one run removes at most 25% of a source's pages and 7 of them, and never half or all of"
        in out
    )
    commands = {
        name: shlex.split(command)
        for name, command in re.findall(r"^  ([\w ]+): +(.*)$", out, re.MULTILINE)
    }
    assert commands == {
        "look at them": ["scrapy", "orphans", "--source", "127.0.0.1:8801"],
        "remove them": ["scrapy", "orphans", "--approve", "7", "--max", "1234"],
    }


def test_an_undo_that_brings_back_the_former_names_of_files_says_so(shown):
    out = shown(removed=2, counts={"moved": 8, "deleted": 2}, kind=FILES)

    assert "2 removed. To bring them back, including the old addresses of 8 renamed files:" in out


def test_what_is_withheld_is_not_offered_for_removal_by_an_incomplete_listing(shown):
    """It may not have seen its source: a drive that is not mounted has no files."""
    cut = {"withheld": 15, "complete": False, "reasons": ("listing: /srv/docs is not there",)}
    out = shown(kind=FILES, **cut)

    assert "look at them:" in out
    assert "them can be removed once a run is complete\n" in out
    assert "--approve" not in out
    assert "--approve" in shown(kind=SITE, **cut), "each page of a site had an answer of its own"


def test_nothing_is_said_of_removals_where_there_are_none(shown):
    out = shown()

    assert "removed" not in out
    assert "withheld" not in out
    assert "not used" not in out


@pytest.mark.parametrize("word", NOTES)
def test_what_was_not_believed_is_told_with_what_it_means(shown, word: str):
    note = f"{word}: 3 of [them]"

    ways = {"extraction_budget": "not read", "trimmed": "withheld"}
    ways |= dict.fromkeys((ENDLESS, FAULTY, UNREAD), "left out")
    what = ways.get(word, "not used")
    meaning = NOTES[word].format(program="scrapy")
    assert f"{what}: {note} ({meaning})\n" in shown(notes=(note,))


def test_everything_that_is_not_believed_has_a_meaning():
    walls = {fault.name.lower() for fault in Fault if fault >= Fault.CHALLENGE}
    found = noted(r'notes(?:\.append\(| \+= \[)\s*f"(\w+):')
    assert found | walls | {TRIMMED, ENDLESS, FAULTY, UNREAD} == set(NOTES)


@pytest.mark.parametrize("moved", ["removed", "withheld"])
def test_a_site_that_lost_pages_is_not_said_to_be_unchanged(shown, moved: str):
    out = shown(not_modified=1_299, counts={"unchanged": 1_299, "gone": 1}, **{moved: 1})

    assert "Nothing changed" not in out


def test_what_went_wrong_is_told_as_it_is(shown):
    out = shown(complete=False, reasons=("no space left for [/data]/registry.db",))

    assert "not complete: no space left for [/data]/registry.db\n" in out


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        ("scrapy", "scrapy"),
        ("/usr/lib/python3/scrapy/__main__.py", "scrapy"),
        ("/elsewhere/bin/scrapy", "/elsewhere/bin/scrapy"),
        (".venv/bin/scrapy", ".venv/bin/scrapy"),
    ],
)
def test_the_next_command_can_be_typed_as_shown(shown, monkeypatch, argv, command):
    monkeypatch.setattr(sys, "argv", [argv])

    last = shown(source="127.0.0.1:8801", data_dir="/my data/x").splitlines()[-1]

    assert shlex.split(last.removeprefix("Search it:  ")) == [
        command, "search", "-s", "DATA_DIR=/my data/x", "--source", "127.0.0.1:8801", "your words",
    ]  # fmt: skip


def test_names_with_brackets_are_shown_as_they_are(shown):
    out = shown(source="[::1]:8801")

    assert "Run 7 of [::1]:8801: complete" in out


# Sitemaps and pages without text


def test_a_sitemap_is_no_excluded_page(shown):
    counts = {"new": 2, "excluded": 3}

    assert "    2  excluded\n" in shown(counts=counts, sitemaps=1, sitemaps_excluded=1)
    assert "excluded" not in shown(counts=counts, sitemaps=3, sitemaps_excluded=3)


def test_a_sitemap_that_failed_is_no_page(shown):
    out = shown(counts={"new": 2, "failed": 1}, sitemaps_in_vain={"failed": 1})

    assert "  failed" not in out
    assert "page failed" not in out
    assert "1 sitemap or feed could not be read. List all:  scrapy" in out
    both = shown(counts={"failed": 3, "lost": 1}, sitemaps_in_vain={"failed": 1, "lost": 1})
    assert "    2  failed\n" in both
    assert "2 pages failed" in both
    assert "  lost" not in both
    assert "2 sitemaps and feeds could not be read" in both


def test_sitemaps_and_pages_without_text_are_counted(shown):
    assert "sitemap" not in shown()
    assert "no text" not in shown()
    assert "1 sitemap or feed with 2 addresses" in shown(sitemaps=1, sitemap_urls=2)
    assert "1,200 sitemaps and feeds with 50,000 addresses" in shown(
        sitemaps=1_200, sitemap_urls=50_000
    )
    out = shown(no_text=1)
    assert "1 page has no text" in out
    assert "registry --no-text --source docs" in out
    assert "2 pages have no text" in shown(no_text=2)


def test_failed_and_lost_pages_are_listed_by_a_command_of_their_own(shown):
    assert "List them" not in shown()
    out = shown(counts={"new": 3, "failed": 1, "lost": 1_200}, source="my docs").splitlines()

    look = "scrapy registry --outcome {} --source 'my docs'"
    gone = "they now return errors; their last good copies are still searchable."
    assert f"1 page failed. List it:  {look.format('failed')}" in out
    assert not any("orphan" in row for row in out)
    assert f"1,200 pages lost: {gone} List them:  {look.format('lost')}" in out


@pytest.mark.parametrize(
    ("threshold", "seen"), [(1, "a complete run sees"), (3, "3 complete runs in a row see")]
)
def test_orphaned_pages_stay_for_a_while_and_that_is_said(shown, threshold, seen):
    said = f"no page links to them any more; they stay until {seen} the same"
    look = "scrapy orphans --source docs"
    for run in ({}, {"complete": False, "reasons": ("not_due: 5",)}):
        printed = shown(counts={"orphaned": 13}, orphan_threshold=threshold, **run)
        assert f"13 pages orphaned: {said}. List them:  {look}" in printed


@pytest.mark.parametrize(
    ("reasons", "why"),
    [
        (("max_pages", "calendar: 2 addresses"), "this run stopped before it reached it"),
        (("interrupted",), "this run stopped before it reached it"),
        (
            ("calendar: 2 addresses",),
            "none of the links that this run followed led to it, and some",
        ),
        (
            ("too_many_links: 1 page",),
            "none of the links that this run followed led to it, and some",
        ),
        (
            ("seed_failed: http://a/ (disallowed by http://a/robots.txt)",),
            "robots.txt disallows the",
        ),
        (
            ("seed_failed: http://a/ (HTTP status 503)",),
            "a page that may link to it could not be fetched",
        ),
        (("sitemap_failed: http://a/x.xml",), "a page that may link to it could not be fetched"),
    ],
)
def test_why_pages_were_not_reached_is_told_as_it_is(shown, reasons: tuple[str, ...], why: str):
    told = shown(counts={"orphaned": 1}, complete=False, reasons=reasons)

    assert f"1 page orphaned: {why}" in told
    assert ", so nothing counts against it. List it:  scrapy registry --outcome orphaned" in told


def test_a_seed_that_robots_txt_forbids_is_no_matter_of_its_address(shown):
    forbidden = "seed_failed: http://a/ (disallowed by http://a/robots.txt)"

    told = shown(complete=False, reasons=(forbidden, "seed_failed: http://b/ (HTTP status 404)"))

    assert f"{forbidden} (ask its owner" in told
    assert "http://b/ (HTTP status 404) (check the address" in told


# Snapshots


def test_snapshots_that_failed_are_counted_with_what_to_do(shown):
    assert "snapshot" not in shown()
    out = shown(progress=RunCounters(unread=1, lost=2, not_stored=1_234))

    unread, lost, not_stored = (line for line in out.splitlines() if "snapshot" in line)
    assert unread.startswith("not extracted again: 1 page (the snapshot store could not be")
    assert "or downloads them" in unread
    assert lost.startswith("not extracted again: 2 pages (their snapshots are missing or damaged")
    assert "downloaded again" in lost
    assert not_stored.startswith("no snapshot stored: 1,234 pages")
    assert "crawl once with -a force=1" in not_stored


def test_a_listed_source_is_told_by_its_listing(shown):
    out = shown(
        kind=FILES, counts={"unchanged": 5, "modified": 1}, visits=6, requests=1, not_modified=5
    )

    assert "1 file read, 5 unchanged by the listing; " in out
    assert "request" not in out
    assert "304" not in out
    assert "conditional" not in out


def test_a_folder_without_a_change_is_said_to_be_unchanged(shown):
    same = {"counts": {"unchanged": 1_200}, "visits": 1_200, "not_modified": 1_200, "requests": 0}

    assert "Nothing changed: the listing confirms 1,200 files; no content was written." in shown(
        kind=FILES, **same
    )
    assert "Nothing changed" not in shown(kind=FILES, **same | {"visits": 1_201})
    assert "Nothing changed" not in shown(kind=FILES, **same | {"visits": 0, "not_modified": 0})


@pytest.mark.parametrize(
    ("complete", "why"),
    [
        (True, "2 pages orphaned: not in the listing any more. List them:"),
        (
            False,
            "2 pages orphaned: the listing was incomplete, so nothing counts against them.",
        ),
    ],
)
def test_a_listed_source_has_no_page_that_no_link_led_to(shown, complete: bool, why: str):
    out = shown(
        kind=FILES,
        complete=complete,
        reasons=() if complete else ("listing: /srv/docs (it is away)",),
        counts={"unchanged": 1, "orphaned": 2},
    )

    assert why in " ".join(out.split())
    assert "no page links" not in out


def test_only_a_script_of_a_web_page_could_write_text(shown):
    assert "script" in shown(no_text=2)
    assert "script" not in shown(kind=FILES, no_text=2)
    assert "2 pages have no text. List them:" in shown(kind=FILES, no_text=2)


def test_the_length_of_a_run_does_not_depend_on_the_clock(shown):
    assert "complete, 42 s\n" in shown()
    assert "complete, 0 s\n" in shown(finished_at=RESULT["started_at"] - 31_535_994)
    assert "complete, 9 s\n" in shown(finished_at=RESULT["started_at"] - 1, seconds=9)

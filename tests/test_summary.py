"""The closing table: what a run did, whether it saw everything, and what to do next."""

import shlex
import sys
from types import SimpleNamespace

import pytest

from smartcrawl.commands.summary import REMEDIES, print_summary
from smartcrawl.registry.runs import RunResult
from smartcrawl.rules.model import Word
from smartcrawl.rules.seal import Evidence, reasons

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
}


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Print the summary of a run with these facts and return its text."""
    monkeypatch.setattr(sys, "argv", ["scrapy", "crawl", "site"])

    def shown(*, source: str = "docs", data_dir: str = ".smartcrawl", **changed: object) -> str:
        run = SimpleNamespace(
            result=RunResult(**(RESULT | changed)),
            source=SimpleNamespace(name=source, ad_hoc=False, seeds=("http://a.example/",)),
        )
        print_summary(run, data_dir)
        return capsys.readouterr().out

    return shown


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


def test_words_stand_in_their_order_and_without_those_that_did_not_occur(shown):
    counts = {word.word: 2 for word in reversed(Word) if word is not Word.LOST}

    words = [line.split()[-1] for line in shown(counts=counts).splitlines()[3:14]]

    assert words == [word.word for word in Word if word is not Word.LOST]


def test_an_unchanged_site_is_said_to_be_so(shown):
    told = "Nothing changed: all 1,300 pages answered 304, no content was written."

    assert told in shown(not_modified=1_300, counts={"unchanged": 1_300})
    assert "Nothing changed" not in shown(not_modified=1_299)  # the default has new ones


def test_a_dead_link_does_not_hide_that_nothing_changed(shown):
    """A page that never answered 200 is failed in every run; no content moves by that."""
    out = shown(not_modified=1_299, counts={"unchanged": 1_299, "failed": 1})

    assert "Nothing changed: 1,299 of 1,300 pages answered 304, no content was written." in out
    for word in ("new", "modified", "clone"):
        counts = {"unchanged": 1_299, word: 1}
        assert "Nothing changed" not in shown(not_modified=1_299, counts=counts)
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

    assert "Run 7 of docs: incomplete, 42 s" in out
    assert f"not complete: {reason} ({REMEDIES[word]})" in out


def test_every_reason_that_the_rules_know_has_a_remedy():
    found = reasons(Evidence(("http://a.example/",), ("max_pages", "interrupted"), 0, 1, 1))

    assert {reason.partition(":")[0] for reason in found} == set(REMEDIES)


def test_what_went_wrong_is_told_as_it_is(shown):
    out = shown(complete=False, reasons=("no space left for [/data]/registry.db",))

    assert "not complete: no space left for [/data]/registry.db\n" in out


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        ("scrapy", "scrapy"),
        ("/usr/lib/python3/scrapy/__main__.py", "scrapy"),
        ("/elsewhere/bin/scrapy", "scrapy"),
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

"""What `why` says of a failed part of a listing, and `orphans` of the reason to remove."""

from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.registry.removal.purge import Target
from smartcrawl.reports.removals import _orphan
from smartcrawl.reports.why import Stories, UnlistedParts
from smartcrawl.rules.model import RemovalRule, Standing, Status, Word

LACKING = UnlistedParts(7, ("/docs/a (refused)",))
WITHIN, OUTSIDE = "file:///docs/a/x.md", "file:///docs/b/x.md"


def meaning(url: str, standing: Standing | None, seen: int = 0, pinned: int = 0) -> str:
    """What the failed part means for an address with such a record, or without one."""
    entry: Any = SimpleNamespace(standing=standing, seen_run=seen, reached_run=0, pinned=pinned)
    return str(LACKING.as_data(None if standing is None else entry, url)["text"])


@pytest.mark.parametrize("standing", [None, Standing.BARE])
def test_an_address_that_was_never_read_is_read_once_a_listing_contains_it(
    standing: Standing | None,
):
    assert meaning(WITHIN, standing).startswith("this address is in one of them")
    assert meaning(OUTSIDE, standing).startswith("this address is in none of them")


@pytest.mark.parametrize("standing", [Standing.HELD, Standing.LINKS])
@pytest.mark.parametrize(
    ("url", "seen", "pinned", "said"),
    [
        (WITHIN, 7, 0, "was listed"),
        (WITHIN, 7, 1, "could not be listed"),
        (WITHIN, 6, 0, "could not be listed"),
        (OUTSIDE, 6, 0, "it stays until a complete listing lacks it"),
    ],
)
def test_a_page_that_was_read_is_told_what_the_failed_part_means_for_it(
    standing: Standing, url: str, seen: int, pinned: int, said: str
):
    assert said in meaning(url, standing, seen, pinned)


@pytest.mark.parametrize(
    ("detail", "why"),
    [
        ("{}", None),
        ('{"why": "excluded"}', "excluded"),
        ('{"target": "http://a.example/b"}', "http://a.example/b"),
        ('{"canonical": "http://a.example/c"}', "http://a.example/c"),
    ],
)
def test_an_orphan_has_the_reason_or_the_page_that_took_its_place(detail: str, why: str | None):
    target = Target(
        1, 1, "docs", "http://a.example/a", Status.CRAWLED, 200, None, 0, 0, 1, 1, None, None,
        RemovalRule.ORPHAN, detail,
    )  # fmt: skip

    assert _orphan(target, 3)["why"] == why


@pytest.mark.parametrize(
    ("standing", "word", "said"),
    [
        (Standing.BARE, Word.LOST, "nothing is stored of the page"),
        (Standing.LINKS, Word.LOST, "the stored links stay"),
        (Standing.HELD, Word.LOST, "the stored page stays searchable"),
        (Standing.HELD, Word.MODIFIED, "its content was indexed"),
    ],
)
def test_a_decision_says_what_stays_of_a_page(standing: Standing, word: Word, said: str):
    nothing: Any = None
    stories = Stories(nothing, nothing, {}, nothing, again=nothing)
    entry: Any = SimpleNamespace(
        word=word, status=Status.INDEXED, http_status=404, standing=standing,
        visited_run=3, reached_run=3,
    )  # fmt: skip
    history, record = [{"event": "visited", "run": 3}], {"lastChecked": 5, "lastIndexed": 4}

    decision = stories._decision(nothing, entry, history, record, [], is_listed=False)

    assert str(decision["text"]).rpartition("; ")[2] == said

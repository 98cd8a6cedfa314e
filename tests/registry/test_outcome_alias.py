"""The unified outcome table from an alias: a page that stands aside for its canonical one."""

import pytest

from smartcrawl.rules.model import RemovalRule, Standing, Status, Word
from tests.registry.build import NOW, Desk, closing
from tests.registry.test_outcome_table import (
    DAY,
    HELD,
    INDEXED,
    NEW,
    NOW_SEEN,
    TARGET,
    WELL,
    Facts,
    Reply,
    answers,
    asked,
    begin,
    facts,
    gone_by,
)

ALIAS = HELD | gone_by(
    RemovalRule.CANONICAL, links=["old"], status=Status.CRAWLED, word=Word.REDIRECTED,
    effective=406, validators="old", hashes="old",
)  # fmt: skip
LISTED = NOW_SEEN | WELL | {
    "http": 200, "validators": "new", "hashes": "new", "links": ["new"], "changed": "now",
}  # fmt: skip
ERROR = NOW_SEEN | {
    "status": Status.ERROR, "word": Word.FAILED, "message": "why", "errors": 1, "wait": 600,
}  # fmt: skip
GOES = {"removed": [RemovalRule.CANONICAL, RemovalRule.REDIRECT]}
REFUSED = {
    "status": Status.OUT_OF_SCOPE, "word": Word.EXCLUDED, "message": "disallowed by robots.txt",
    "checked": "now",
}  # fmt: skip


@pytest.fixture
def alias(desk: Desk) -> Desk:
    """The page was indexed, and removed because it names an indexed one as canonical."""
    answers(desk, Reply(200, "old", "old", canonical=TARGET))
    return desk


def test_an_alias_holds_links_and_validators(alias: Desk):
    assert facts(alias, NOW + DAY) == ALIAS


@pytest.mark.covers("U-01", "U-02", "U-06", "U-07", "U-11", "U-13", "U-14", "U-15", "U-17", "M-20")
@pytest.mark.parametrize(
    ("reply", "visit", "end"),
    [
        pytest.param(Reply(200, "new", canonical=TARGET), LISTED, {}, id="names-it-again"),
        pytest.param(Reply(200, "new"), INDEXED | NEW, {}, id="U-01-names-nobody"),
        pytest.param(Reply(304), NOW_SEEN | {"http": 304, "unchanged": 1}, {}, id="U-02"),
        pytest.param(
            Reply(301, to=TARGET),
            NOW_SEEN | {"http": 301, "redirect": TARGET},
            gone_by(RemovalRule.REDIRECT, links=["target"], effective=301) | GOES,
            id="U-06",
        ),
        pytest.param(
            Reply(406, "new"),
            LISTED | {"http": 406, "word": Word.EXCLUDED, "message": "why"},
            {},
            id="U-07",
        ),
        pytest.param(Reply(404), ERROR | {"http": 404, "gone": 1}, {}, id="U-11"),
        pytest.param(Reply(1103), ERROR | {"http": 1103}, {}, id="U-13"),
        pytest.param(Reply(1200), ERROR | {"http": 1200}, {}, id="U-14"),
        pytest.param(Reply(None), REFUSED, {}, id="U-15"),
        pytest.param(None, {}, {"word": Word.ORPHANED}, id="U-17"),
    ],
)
def test_an_answer_of_an_alias(alias: Desk, reply: Reply | None, visit: Facts, end: Facts):
    began = NOW + DAY
    now = begin(alias)

    if reply is not None:
        alias.write(asked(alias, reply, now), now=now)
    visited = facts(alias, began)
    assert visited == ALIAS | visit

    alias.seal(now=now)
    assert facts(alias, began) == visited | end


@pytest.mark.covers("U-02", "M-20", "RD-02")
def test_an_alias_has_the_validators_of_its_next_body_and_stays_aside(alias: Desk):
    answers(alias, Reply(200, "old", canonical=TARGET))
    before = facts(alias, NOW + 2 * DAY)

    answers(alias, Reply(304))

    moved = NOW_SEEN | {"http": 304, "unchanged": 1}
    assert before["validators"] == "new"
    assert facts(alias, NOW + 2 * DAY) == before | {"checked": "before", "seen": "before"} | moved


@pytest.mark.covers("U-09", "U-18", "M-20")
@pytest.mark.parametrize("reply", [Reply(404), None], ids=["U-09", "U-18"])
def test_an_alias_goes_like_any_page_and_takes_its_links_along(alias: Desk, reply: Reply | None):
    alias.closing = closing(lost_threshold=1, orphan_threshold=1)

    answers(alias, reply)

    found = facts(alias, 0)
    assert found["removed"] == [
        RemovalRule.CANONICAL,
        RemovalRule.GONE if reply else RemovalRule.ORPHAN,
    ]
    assert (found["standing"], found["links"]) == (Standing.BARE, None)

"""The decision tables of docs/decisions.md, cell by cell."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.model import (
    REMOVES_PINNED,
    Action,
    Fault,
    Mode,
    Outcome,
    RemovalRule,
    Standing,
    Status,
    Word,
)
from smartcrawl.rules.reindex import (
    DECISIONS,
    REMOVALS,
    WAITS,
    Removal,
    Verdict,
    decide,
    decide_extraction,
    decide_moved,
    effective_after,
    effective_status,
    state_after_removal,
    status_after,
    waits_for_browser,
)
from tests.rules.manual import PAGE, fits, header, table

OUTCOMES, STANDINGS = st.sampled_from(Outcome), st.sampled_from(Standing)


def cells():
    for outcome, *verdicts, source in table("One visit"):
        for standing, verdict in zip(header("One visit")[1:-1], verdicts, strict=True):
            action, word = verdict.split(", ")
            yield pytest.param(
                Standing[standing.upper()],
                Outcome(outcome),
                Verdict(Action(action), Word[word.upper()]),
                id=f"{source.split(';')[0]}-{standing}-{outcome}",
            )


@pytest.mark.covers(
    "R4-34", "R4-35", "R4-36", "R4-37", "R4-38", "R4-39", "R4-40", "R4-41", "M-30", "M-31", "R4-01"
)
@pytest.mark.parametrize(("standing", "outcome", "verdict"), list(cells()))
def test_verdict(standing, outcome, verdict):
    assert decide(standing, outcome) == verdict


def test_every_pair_is_specified_and_decided():
    assert {p.values[:2] for p in cells()} == {(s, o) for s in Standing for o in Outcome}
    assert set(DECISIONS) == set(Outcome)


def test_every_source_of_a_row_is_a_requirement():
    lines = (PAGE.parents[1] / "tests" / "requirements.tsv").read_text().splitlines()
    known = {line.split("\t")[0] for line in lines}
    for *_, source in table("One visit"):
        told = re.findall(r"\w+-\d+", source)
        assert told
        assert set(told) <= known


@pytest.mark.covers("R0-06", "M-13")
@given(STANDINGS, OUTCOMES, st.booleans())
def test_force_never_endangers_what_is_held(standing, outcome, alias):
    """An order to reindex may cause more writing, never more forgetting."""
    plain = decide(standing, outcome, alias=alias)
    forced = decide(standing, outcome, force=True, alias=alias)

    rewritten = plain._replace(action=Action.INDEX)
    assert forced == (rewritten if outcome is Outcome.SAME else plain)


@pytest.mark.covers("M-13")
def test_force_replaces_equal_content_and_invents_no_change():
    assert decide(Standing.HELD, Outcome.SAME, force=True) == (Action.INDEX, Word.UNCHANGED)
    assert decide(Standing.HELD, Outcome.NOT_MODIFIED, force=True).action is Action.TOUCH


def test_an_unchanged_page_that_stands_aside_is_redirected():
    for standing, outcome in product(Standing, Outcome):
        plain, aside = decide(standing, outcome), decide(standing, outcome, alias=True)
        if (standing, plain.action) == (Standing.LINKS, Action.TOUCH):
            assert aside == (Action.TOUCH, Word.REDIRECTED)
        else:
            assert aside == plain


@pytest.mark.covers("R4-02", "R4-04", "M-01")
@given(OUTCOMES)
def test_no_visit_removes_what_is_held(outcome):
    assert decide(Standing.HELD, outcome).action in (Action.INDEX, Action.TOUCH, Action.HOLD)


@pytest.mark.covers("M-06", "R4-45", "R4-27")
@given(OUTCOMES, st.sampled_from(Status), st.integers())
def test_what_is_held_keeps_its_effective_status_through_any_failure(outcome, before, status):
    action = decide(Standing.HELD, outcome).action

    assert effective_status(action, outcome, status, 200) == 200
    if action is Action.HOLD:
        assert status_after(action, outcome, Status.INDEXED, Standing.HELD, gone=True) in (
            Status.INDEXED,
            Status.ERROR,
            Status.OUT_OF_SCOPE,
        )


def status_told(action, outcome, before, standing, *, gone, waits=False):
    """Return the status that the first fitting row of the manual gives."""
    tombstone = gone or before is Status.GONE
    told = next(
        told
        for named, outcomes, old, told in table("The status of a record")
        if (named == action or (waits and named == f"{action}, it waits for a browser"))
        and fits(outcomes, outcome)
        and (tombstone if old == "Gone, or gone by now" else fits(old, before.word))
    )
    match told:
        case "as before":
            return before.word
        case "Indexed where content is held, else Crawled":
            return "Indexed" if standing is Standing.HELD else "Crawled"
        case _:
            return told


@pytest.mark.covers("M-06", "R0-50", "R0-28")
@pytest.mark.parametrize("action", list(Action))
@pytest.mark.parametrize("gone", [False, True])
def test_status_of_a_record_is_the_manuals(action, gone):
    for facts in product(Outcome, Status, Standing):
        after = status_after(action, *facts, gone=gone)

        assert after.word == status_told(action, *facts, gone=gone), facts


@pytest.mark.parametrize("before", list(Status))
@pytest.mark.parametrize("gone", [False, True])
def test_a_page_that_waits_for_a_browser_is_pending_or_gone(before, gone):
    facts = Action.NOTE, Outcome.UNREACHABLE, before, Standing.BARE

    after = status_after(*facts, gone=gone, waits=True)

    assert after.word == status_told(*facts, gone=gone, waits=True)


@pytest.mark.parametrize("standing", list(Standing))
def test_a_new_page_alone_waits_for_a_browser(standing):
    waiting = [fault for fault in Fault if waits_for_browser(standing, fault)]

    assert waiting == ([Fault.NO_BROWSER] if standing is Standing.BARE else [])
    assert not waits_for_browser(standing, None)
    assert WAITS == (Action.NOTE, Word.SKIPPED)


def test_a_page_is_not_gone_unless_said_so():
    before = Status.ERROR
    after = status_after(Action.NOTE, Outcome.NOT_FOUND, before, Standing.BARE)

    assert after is Status.ERROR


@pytest.mark.covers("R0-50", "M-01")
@given(OUTCOMES)
def test_a_tombstone_stays_one_until_the_page_answers_again(outcome):
    action = decide(Standing.BARE, outcome).action
    answered = action is not Action.NOTE or outcome is Outcome.REDIRECT

    after = status_after(action, outcome, Status.GONE, Standing.BARE)

    assert (after is not Status.GONE) == answered


@pytest.mark.covers("R4-45")
@pytest.mark.parametrize("action", list(Action))
def test_effective_status_is_the_manuals(action):
    for outcome in Outcome:
        rows = [row for row in table("Effective status") if row[0] == action]
        told = next(told for _, outcomes, told in rows if fits(outcomes, outcome))
        for status, before in [(503, 301), (None, 404), (404, None)]:
            expected = {"as before": before, "that of the answer": status}
            after = effective_status(action, outcome, status, before)

            assert after == (expected[told] if told in expected else int(told))


def test_effective_status_is_200_only_where_content_is_held():
    action = decide(Standing.BARE, Outcome.SOFT_404).action

    assert effective_status(action, Outcome.SOFT_404, 200, None) != 200


@pytest.mark.covers("R4-06", "M-01")
@pytest.mark.parametrize("rule", list(RemovalRule))
def test_what_is_left_after_a_removal_is_the_manuals(rule):
    ((status, standing, word, effective, pinned),) = (
        row for name, *row in table("After a removal") if name == rule.word
    )
    left = state_after_removal(rule)

    assert left == REMOVALS[rule] == Removal(*left)
    assert left.status.word == status
    assert left.standing.name.lower() == standing
    assert left.word.word == word
    assert (rule in REMOVES_PINNED) == {"yes": True, "no": False}[pinned]
    for answer in (404, 301, None):
        expected = {"that of the answer": answer, "none": None}
        after = effective_after(rule, answer)
        assert after == (expected[effective] if effective in expected else int(effective))
    assert left.effective_status == (int(effective) if effective.isdecimal() else None)


def test_every_rule_of_removal_leaves_no_content():
    assert [name for name, *_ in table("After a removal")] == [rule.word for rule in RemovalRule]
    assert set(REMOVALS) == set(RemovalRule)
    assert all(state_after_removal(rule).standing is not Standing.HELD for rule in RemovalRule)


@pytest.mark.covers("R4-06", "R4-45")
@pytest.mark.parametrize(("said", "kept"), [(404, 404), (410, 410), (200, 404), (403, 403)])
def test_a_tombstone_keeps_what_the_server_said_and_never_a_200(said, kept):
    assert effective_after(RemovalRule.GONE, said) == kept


@pytest.mark.covers("M-15", "R4-20")
@pytest.mark.parametrize("standing", list(Standing))
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("snapshot", [True, False])
def test_how_a_page_comes_to_another_configuration_is_the_manuals(standing, mode, same, snapshot):
    words = (standing.name.lower(), mode.word, *("yes" if t else "no" for t in (same, snapshot)))
    told = [
        row
        for row in table("Another configuration")
        if all(cell in (word, "any") for cell, word in zip(row, words, strict=False))
    ]

    assert len(told) == 1
    assert (
        decide_extraction(standing, mode, same_configuration=same, snapshot=snapshot) == told[0][4]
    )


@pytest.mark.covers("R3-02", "R3-32")
@pytest.mark.parametrize(("action", "word"), list(product(Action, Word)))
def test_an_item_with_equal_content_at_another_address_is_moved(action, word):
    verdict = Verdict(action, word)
    moved = (action, word) == (Action.INDEX, Word.UNCHANGED)

    assert decide_moved(verdict) == (Verdict(Action.INDEX, Word.MOVED) if moved else verdict)

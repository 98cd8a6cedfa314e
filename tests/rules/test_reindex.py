"""The decision table of docs/decisions.md, cell by cell."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.http import conditional_headers, outcome_of
from smartcrawl.rules.model import Action, Fault, Outcome, Standing, Status, Word
from smartcrawl.rules.reindex import DECISIONS, Verdict, decide, effective_status, status_after

PAGE = Path(__file__).parents[2] / "docs" / "decisions.md"


def table(title):
    """Return the rows of the first table below a heading, as lists of cells."""
    lines = PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows]


def cells():
    header, _, *rows = table("One visit")
    for outcome, *verdicts, source in rows:
        for standing, verdict in zip(header[1:-1], verdicts, strict=True):
            action, word = verdict.split(", ")
            yield pytest.param(
                Standing[standing.upper()],
                Outcome(outcome),
                Verdict(Action(action), Word[word.upper()]),
                id=f"{source.split(';')[0]}-{standing}-{outcome}",
            )


@pytest.mark.covers("R4-34", "R4-35", "R4-36", "R4-39", "R4-40", "R4-41", "M-31")
@pytest.mark.parametrize(("standing", "outcome", "verdict"), cells())
def test_verdict(standing, outcome, verdict):
    assert decide(standing, outcome) == verdict


def test_every_pair_is_specified_and_decided():
    assert {p.values[:2] for p in cells()} == {(s, o) for s in Standing for o in Outcome}
    assert set(DECISIONS) == set(Outcome)


@pytest.mark.covers("R0-06", "M-13")
@given(st.sampled_from(Standing), st.sampled_from(Outcome))
def test_force_never_endangers_what_is_held(standing, outcome):
    """An order to reindex may cause more writing, never more forgetting."""
    plain, forced = decide(standing, outcome), decide(standing, outcome, force=True)

    rewritten = plain._replace(action=Action.INDEX)
    assert forced == (rewritten if outcome is Outcome.SAME else plain)


@pytest.mark.covers("M-06", "R4-45")
@given(st.sampled_from(Standing), st.sampled_from(Outcome), st.sampled_from(Status), st.integers())
def test_what_is_held_keeps_its_effective_status_through_any_failure(
    standing, outcome, before, status
):
    action = decide(Standing.HELD, outcome).action

    after = effective_status(action, outcome, status, 200)

    assert after == 200
    if action is Action.HOLD:
        assert status_after(action, outcome, Status.INDEXED, Standing.HELD) in (
            Status.INDEXED,
            Status.ERROR,
            Status.OUT_OF_SCOPE,
        )


def statuses():
    _, _, *rows = table("The status of a record")
    for action, outcomes, status in rows:
        named = (
            {Outcome(name.strip()) for name in outcomes.split(",")}
            if "any" not in outcomes
            else None
        )
        yield Action(action), named, status


@pytest.mark.parametrize("action", list(Action))
def test_status_of_a_record_is_the_manual(action):
    rows = [(named, told) for a, named, told in statuses() if a is action]
    for outcome in Outcome:
        told = next(
            (told for named, told in rows if named and outcome in named),
            next(told for named, told in rows if named is None),
        )
        after = status_after(action, outcome, Status.ERROR, Standing.HELD)
        plain = status_after(action, outcome, Status.INDEXED, Standing.LINKS)
        match told:
            case "Indexed where content is held, else Crawled":
                assert (after, plain) == (Status.INDEXED, Status.CRAWLED)
            case "as before; back to Indexed or Crawled after an error":
                assert (after, plain) == (Status.INDEXED, Status.INDEXED)
                healed = status_after(action, outcome, Status.ERROR, Standing.LINKS)
                assert healed is Status.CRAWLED
            case _:
                assert after.word == plain.word == told


@pytest.mark.parametrize(
    ("action", "outcome", "http_status", "expected"),
    [
        (Action.INDEX, Outcome.CHANGED, 200, 200),
        (Action.LIST, Outcome.NOT_ACCEPTABLE, 200, 406),
        (Action.NOTE, Outcome.REDIRECT, 301, 301),
        (Action.NOTE, Outcome.HTTP_ERROR, 404, 404),
        (Action.NOTE, Outcome.UNREACHABLE, 1101, None),
        (Action.NOTE, Outcome.EXCLUDED, None, None),
    ],
)
def test_effective_status_where_nothing_is_held(action, outcome, http_status, expected):
    assert effective_status(action, outcome, http_status, None) == expected


@pytest.mark.covers("R4-38")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 451, 500, 503, 201, 204, 206])
def test_any_other_status_is_an_http_error(status):
    assert outcome_of(status, conditional=True) is Outcome.HTTP_ERROR


@pytest.mark.covers("R4-37", "M-30")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [(s, Outcome.REDIRECT) for s in (301, 302, 303, 307, 308)]
    + [(406, Outcome.NOT_ACCEPTABLE), (200, Outcome.CHANGED), (304, Outcome.BAD_HEADER)],
)
def test_statuses_with_a_case_of_their_own(status, outcome):
    assert outcome_of(status, conditional=False) is outcome


@pytest.mark.covers("R0-38", "RD-04", "RP-05")
@given(st.text(min_size=1), st.text(min_size=1))
def test_validators_are_sent_byte_for_byte(etag, last_modified):
    sent = conditional_headers(etag, last_modified, trusted=True)

    assert sent == {"If-None-Match": etag, "If-Modified-Since": last_modified}
    assert conditional_headers(etag, last_modified, trusted=False) == {}
    assert conditional_headers(None, "", trusted=True) == {}


@pytest.mark.covers("R4-42", "G-15")
def test_each_fault_falls_in_exactly_one_group():
    groups = {
        Outcome.BAD_HEADER: range(1000, 1100),
        Outcome.UNREACHABLE: range(1100, 1200),
        Outcome.UNPROCESSABLE: range(1200, 1300),
    }
    for fault in Fault:
        assert [o for o, numbers in groups.items() if fault in numbers] == [fault.outcome]


@pytest.mark.covers("R0-28")
def test_status_words_are_the_seeds():
    assert [status.word for status in Status] == [
        "Pending",
        "Crawled",
        "Indexed",
        "Error",
        "OutOfScope",
        "Gone",
    ]

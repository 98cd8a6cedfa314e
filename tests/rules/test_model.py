"""The numbers and words that rules, registry and reports share (docs/decisions.md)."""

import pytest

from smartcrawl.rules.model import (
    PRIORITY,
    Fault,
    Mode,
    Outcome,
    RemovalRule,
    RunState,
    Standing,
    Status,
    Word,
)
from tests.rules.manual import numbers, table

KINDS = [Status, Standing, Word, RunState, RemovalRule, Mode]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_stored_numbers_are_the_manuals(kind):
    column = 1 + KINDS.index(kind)
    told = {int(row[0]): row[column] for row in table("Numbers that are stored") if row[column]}

    assert {int(member): getattr(member, "word", member.name.lower()) for member in kind} == told
    assert len(kind.__members__) == len(told)


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


@pytest.mark.covers("R4-42", "G-15")
def test_each_fault_falls_in_exactly_one_group():
    groups = {
        Outcome(outcome): numbers(group)
        for group, outcome in table("Visits without a status of their own")
    }
    assert [(min(group), max(group)) for group in groups.values()] == [
        (1000, 1099),
        (1100, 1199),
        (1200, 1299),
    ]
    for fault in Fault:
        assert [o for o, group in groups.items() if fault in group] == [fault.outcome]


@pytest.mark.covers("G-15")
def test_faults_are_the_manuals():
    told = table("Visits without a status of their own", 1)

    assert [[str(int(fault)), f"`{fault.name}`", fault.outcome] for fault in Fault] == told
    assert len(Fault.__members__) == len(told)


@pytest.mark.covers("R2-35")
def test_an_address_without_a_priority_has_the_middle_one():
    assert PRIORITY == 5

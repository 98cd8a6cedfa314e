"""Visits whose data the registry's database refuses: found by trial, and failed one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from smartcrawl.model.pages import Visit
from smartcrawl.rules.model import Fault, Word
from smartcrawl.rules.reindex import decide

#: Python's errors about a value: text without UTF-8, a number that is too large, or a type that
#: no column takes.
DATA_ERRORS = (ValueError, TypeError, OverflowError)

#: Writes a batch with only its first visits, by count; returns the error, or None.
Attempt = Callable[[int], Exception | None]


class Failed(NamedTuple):
    """A visit that could not be written, and the word under which it was counted before."""

    visit: Visit
    word: Word


def first_refused_visit_row(
    visits: list[Visit], attempt: Attempt
) -> tuple[Visit, Exception] | None:
    """Return the first visit that cannot be written after its predecessors, with the error.

    None if no visit is the cause: the batch fails without visits, too, or does not fail again.
    The number of trials grows with the logarithm of the number of visits.
    """
    why = attempt(len(visits))
    if why is None or attempt(0) is not None:
        return None
    good, bad = 0, len(visits)
    while bad - good > 1:
        middle = (good + bad) // 2
        found = attempt(middle)
        if found is None:
            good = middle
        else:
            bad, why = middle, found
    return visits[bad - 1], why


def store_refused_visit_row(visit: Visit, why: str) -> Failed:
    """End a visit as UNPROCESSABLE; stored content and validators stay.

    It does not count as unreachable: its server answered, and its links were offered
    (R1-36; ADR 130).
    """
    parsed = visit.parsed
    word = visit.verdict.word if visit.verdict is not None else Word.FAILED
    visit.fail(Fault.PROCESSING, why)
    parsed.document, parsed.links, parsed.targets, visit.answer.body = None, None, b"", None
    visit.verdict = decide(visit.page.state.standing, visit.outcome)
    return Failed(visit, word)


def store_unwritable_visit_row(visit: Visit, error: Exception) -> Failed:
    """End a visit that the database refuses, and clear every value that it may refuse."""
    visit.url, visit.kind, visit.answer.location = visit.page.url, visit.page.kind, None
    visit.collapse = visit.parsed.unreadable = visit.snapshot = None
    return store_refused_visit_row(
        visit, f"the registry does not take it: {database_refusal_reason(error)}"
    )


def database_refusal_reason(error: Exception) -> str:
    r"""Return type and first line of an error, in characters that every database takes.

    >>> database_refusal_reason(ValueError("a\x00b \ud800\nmore"))
    'ValueError: a\\x00b \\ud800'
    """
    text = (str(error).splitlines() or [""])[0].replace("\0", "\\x00")
    readable = text.encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__}: {readable}" if readable else type(error).__name__

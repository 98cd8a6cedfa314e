"""Pages whose data the registry's database refuses: found by trial, and failed one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from smartcrawl.model.pages import Visit
from smartcrawl.rules.model import Fault, Word
from smartcrawl.rules.reindex import decide

#: Errors of Python that a value causes: text that has no UTF-8, a number that is too large, or of
#: a type without a column.
DATA_ERRORS = (ValueError, TypeError, OverflowError)

#: Returns why a batch with only so many of its visits cannot be written; None: it can.
Attempt = Callable[[int], Exception | None]


class Failed(NamedTuple):
    """A visit that could not be written, and the word that was counted for it before."""

    visit: Visit
    word: Word


def first_refused(visits: list[Visit], attempt: Attempt) -> tuple[Visit, Exception] | None:
    """Return the first visit that cannot be written after those before it, with the error.

    None where no visit is the cause: the batch fails without its visits, too, or does not fail
    again. The number of trials grows with the logarithm of the number of visits.
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


def fail(visit: Visit, why: str) -> Failed:
    """Let a visit end as UNPROCESSABLE; the stored content and validators stay.

    It does not count as unreachable: its server answered, and its links were offered
    (R1-36; design.md 6).
    """
    word = visit.verdict.word if visit.verdict is not None else Word.FAILED
    visit.fail(Fault.PROCESSING, why)
    visit.document, visit.links, visit.targets, visit.body = None, None, b"", None
    visit.verdict = decide(visit.page.standing, visit.outcome)
    return Failed(visit, word)


def fail_refused(visit: Visit, error: Exception) -> Failed:
    """Let a visit end as one that the database refuses, without any value that it may refuse."""
    visit.url, visit.kind, visit.location = visit.page.url, visit.page.kind, None
    visit.collapse = visit.unreadable = visit.snapshot = None
    return fail(visit, f"the registry does not take it: {reason_of(error)}")


def reason_of(error: Exception) -> str:
    r"""Return what an error says first, in characters that every database takes.

    >>> reason_of(ValueError("a\x00b \ud800\nmore"))
    'ValueError: a\\x00b \\ud800'
    """
    text = (str(error).splitlines() or [""])[0].replace("\0", "\\x00")
    readable = text.encode("utf-8", "backslashreplace").decode()
    return f"{type(error).__name__}: {readable}" if readable else type(error).__name__

"""Whole numbers that people give, with one bound that every store can hold."""

from __future__ import annotations

from typing import Final

#: The largest number that is taken where nothing says otherwise. Times a day, or added to the time
#: of today, it still fits into 64 bits; as seconds it is 3,170 years, as bytes 93 GiB.
MOST_NUMBER: Final = 100_000_000_000
MOST_DAYS: Final = 1_000_000  #: MOST_NUMBER in days, nearly
_DIGITS: Final = 4_000  #: Python refuses to read a few more


def given_number(text: str) -> int | None:
    """Return a whole number of digits alone, None for any other text; above the bound, one more.

    >>> given_number("007"), given_number("-7"), given_number("1e3"), given_number("")
    (7, None, None, None)
    >>> given_number("9" * 20) == given_number("9" * 9_999) == MOST_NUMBER + 1
    True
    """
    if not text.isdecimal():
        return None
    return min(int(text), MOST_NUMBER + 1) if len(text) <= _DIGITS else MOST_NUMBER + 1


def given_number_bounds(least: int, most: int = MOST_NUMBER, *, beyond: bool = False) -> str:
    """Return the bounds of a number in words; the upper one where it was exceeded or is its own.

    >>> given_number_bounds(1), given_number_bounds(1, beyond=True), given_number_bounds(0, 9)
    ('of at least 1', 'from 1 to 100000000000', 'from 0 to 9')
    """
    return (
        f"of at least {least}" if most == MOST_NUMBER and not beyond else f"from {least} to {most}"
    )

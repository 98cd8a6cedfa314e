"""Numbers in words, for tables and messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1.

    >>> counted(1, "page"), counted(1_234, "page")
    ('1 page', '1,234 pages')
    """
    return f"1 {noun}" if number == 1 else f"{number:,} {noun}s"

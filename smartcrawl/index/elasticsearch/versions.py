"""Claim numbers as versions of documents: whoever claimed later wins, in every order (6.4)."""

from __future__ import annotations

from typing import Final

_BITS: Final = 40  #: of a version, for the claim number; the epoch stands above


def version(epoch: int, number: int) -> int:
    """Return the version of what is written under a claim number.

    >>> version(1, 7)
    1099511627783

    Raises:
        ValueError: the number does not fit.
    """
    if epoch < 0 or not 0 <= number < 1 << _BITS:
        raise ValueError(f"no version can be made of epoch {epoch} and number {number}")
    return epoch << _BITS | number


def epoch_of(told: int) -> int:
    """Return the epoch of a version."""
    return told >> _BITS


def number_of(told: int) -> int:
    """Return the claim number of a version."""
    return told & ((1 << _BITS) - 1)

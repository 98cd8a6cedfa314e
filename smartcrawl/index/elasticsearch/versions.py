"""Claim numbers as versions of documents: the later one wins in any order of writes (ADR 130)."""

from __future__ import annotations

from typing import Final

_BITS: Final = 40  #: low bits of a version for the claim number; the epoch is above them


def index_version(epoch: int, number: int) -> int:
    """Return the version of a write under a claim number.

    >>> index_version(1, 7)
    1099511627783

    Raises:
        ValueError: the number does not fit.
    """
    if epoch < 0 or not 0 <= number < 1 << _BITS:
        raise ValueError(f"no version can be made of epoch {epoch} and number {number}")
    return epoch << _BITS | number


def epoch_of_index_version(version_: int) -> int:
    """Return the epoch of a version."""
    return version_ >> _BITS


def claim_of_index_version(version_: int) -> int:
    """Return the claim number of a version."""
    return version_ & ((1 << _BITS) - 1)

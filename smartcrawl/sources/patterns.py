"""The operator's patterns, whose time no address can increase."""

from __future__ import annotations

from typing import Final, Protocol

import re2

_SMALL: Final = 1 << 20  #: bytes of memory for a pattern; almost every one has enough
_LARGE: Final = 8 << 20  #: bytes for one of the operator that needs more; RE2's own limit


class ScopePattern(Protocol):
    """A compiled pattern."""

    @property
    def programsize(self) -> int:
        """The number of its steps, which is the measure of its memory and time."""

    def search(self, text: str) -> object | None:
        """Return the first match in a text, or None."""


def compile_scope_pattern(pattern: str, *, small: bool = False) -> ScopePattern:
    """Return a pattern, compiled by RE2; a ``small`` one came over the HTTP API.

    RE2 reads an address in time that depends only on its length, so that no link of a site can make
    a pattern hang. To compile takes milliseconds within the small memory, and a fifth of a second
    within the large one.

    Raises:
        ValueError: it is no regular expression of RE2, or needs more memory; with the reason.

    Source: ATT-35, ATT-66.
    """
    try:
        return _compiled(pattern, _SMALL)
    except ValueError:
        if small:
            raise
    return _compiled(pattern, _LARGE)


def _compiled(pattern: str, memory: int) -> ScopePattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    try:
        found: ScopePattern = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else "not understood"
        raise ValueError(why.decode() if isinstance(why, bytes) else str(why)) from None
    return found

"""The operator's patterns, whose time no address can increase."""

from __future__ import annotations

from typing import Protocol

import re2


class ScopePattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str) -> object | None:
        """Return the first match in a text, or None."""


def compile_scope_pattern(pattern: str) -> ScopePattern:
    """Return a pattern of the operator, compiled by RE2.

    RE2 reads an address in time that depends only on its length, so that no link of a site can make
    a pattern hang.

    Raises:
        ValueError: it is no regular expression of RE2; with the reason.

    Source: ATT-35.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        found: ScopePattern = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else "not understood"
        raise ValueError(why.decode() if isinstance(why, bytes) else str(why)) from None
    return found

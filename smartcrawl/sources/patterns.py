"""Patterns of the operator's, which no address can make slow."""

from __future__ import annotations

from typing import Any

import re2


def compiled(pattern: str) -> Any:
    """Return a pattern of the operator's, with a method ``search``.

    RE2 reads an address in time that grows with its length and nothing else: no pattern can
    be made to hang by a link that somebody writes.

    Raises:
        ValueError: it is no regular expression of RE2; the message says why.

    Source: ATT-35.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else "not understood"
        raise ValueError(why.decode() if isinstance(why, bytes) else str(why)) from None

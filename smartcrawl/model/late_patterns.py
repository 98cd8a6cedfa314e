"""Patterns that are compiled when they are first used.

A hundred patterns with sets of letters of all scripts take a fifth of the CPU of a short command,
which uses some of them.
"""

from __future__ import annotations

import re
from typing import Any, cast


class LatePattern:
    """A pattern of ``re`` that compiles itself; its methods are as fast as those of ``re``."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._made_of = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiled pattern, and keep it."""
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self.compiled, name)
        setattr(self, name, found)
        return found

    @property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself, for functions that want one."""
        return re.compile(*self._made_of)


def late_pattern(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled at the first use of one of its methods.

    >>> late_pattern("a+", re.IGNORECASE).fullmatch("aA")[0]
    'aA'

    Raises:
        re.error: at the first use, where the pattern cannot be compiled.
    """
    return cast("re.Pattern[str]", LatePattern(pattern, flags))

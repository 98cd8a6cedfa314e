"""The settings of a command without Scrapy: smartcrawl.settings, and the values given with -s."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from smartcrawl import settings
from smartcrawl.model.setting_values import CMDLINE
from smartcrawl.terminal.base_command import CommandSettings

_PROJECT = 20  #: priority of a settings module, as Scrapy counts
_TRUE = ("1", "true", "True")


class PlainSettings(CommandSettings):
    """Settings by name, with Scrapy's answers: None for a name that has no value."""

    def __init__(self) -> None:
        self._values = {name: value for name, value in vars(settings).items() if name.isupper()}
        self._given: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        """Return a setting, or None."""
        return self._values.get(name)

    def __contains__(self, name: object) -> bool:
        """Whether there is a setting of this name."""
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of settings."""
        return len(self._values)

    def set(self, name: str, value: object, priority: str) -> None:
        """Set a value; ``priority``: "cmdline" if it was given with -s."""
        self._values[name] = value
        if priority == "cmdline":
            self._given.add(name)

    def getbool(self, name: str) -> bool:
        """Return a setting as a switch; Options has checked its value."""
        return str(self._values.get(name)) in _TRUE

    def getint(self, name: str) -> int:
        """Return a setting as a whole number; Options has checked its value."""
        return int(self._values.get(name) or 0)

    def getfloat(self, name: str) -> float:
        """Return a setting as a number; Options has checked its value."""
        return float(self._values.get(name) or 0)

    def getpriority(self, name: str) -> int | None:
        """Return how strong the origin of a setting is; None where there is no such setting."""
        if name not in self._values:
            return None
        return CMDLINE if name in self._given else _PROJECT

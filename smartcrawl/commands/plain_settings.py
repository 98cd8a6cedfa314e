"""The settings of a command without Scrapy: smartcrawl.settings, and the values given with -s."""

from __future__ import annotations

import os
from typing import Any

from smartcrawl import settings
from smartcrawl.model.setting_values import CMDLINE
from smartcrawl.model.settings_file import load_settings_file
from smartcrawl.terminal.state_folder import VARIABLES

_PROJECT = 20  #: priority of a settings module, as Scrapy counts


class PlainSettings(dict[str, Any]):
    """Settings by name, with Scrapy's answers: None for a name that has no value."""

    def __init__(self) -> None:
        super().__init__({name: value for name, value in vars(settings).items() if name.isupper()})
        self._given: set[str] = set()

    def __missing__(self, name: str) -> None:
        """Return None."""

    def set(self, name: str, value: object, priority: str) -> None:
        """Set a value; ``priority``: "cmdline" if it was given with -s."""
        self[name] = value
        if priority == "cmdline":
            self._given.add(name)

    def apply_file(self) -> None:
        """Take the values of smartcrawl.toml that nothing stronger gives.

        Raises:
            SettingError: the file cannot be used.
        """
        file = load_settings_file(self, self._is_given)
        for name, value in file.values.items():
            if name != "DATA_DIR" and not self._is_given(name):  # the folder of state is known
                self[name] = value

    def _is_given(self, name: str) -> bool:
        variables = VARIABLES if name == "DATA_DIR" else (name,)
        return name in self._given or any(variable in os.environ for variable in variables)

    def getpriority(self, name: str) -> int | None:
        """Return how strong the origin of a setting is; None where there is no such setting."""
        if name not in self:
            return None
        return CMDLINE if name in self._given else _PROJECT

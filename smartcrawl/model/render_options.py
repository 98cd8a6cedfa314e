"""The settings of pages that a browser shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from smartcrawl.model.settings_table import SETTINGS


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """Which browser shows pages, and how many at a time."""

    program: str  #: path or name of a Chromium; empty: one on the PATH
    pages: int  #: at the same time
    memory: int  #: MiB of the process of a page
    sandbox: bool  #: whether Chromium confines the processes of pages itself

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        return cls(
            program=SETTINGS["RENDER_BROWSER"].read(settings["RENDER_BROWSER"]),
            pages=SETTINGS["RENDER_PAGES"].read(settings["RENDER_PAGES"]),
            memory=SETTINGS["RENDER_MEMORY_MB"].read(settings["RENDER_MEMORY_MB"]),
            sandbox=SETTINGS["RENDER_SANDBOX"].read(settings["RENDER_SANDBOX"]) == "on",
        )

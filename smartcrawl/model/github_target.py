"""The origins of a GitHub, read from the settings once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from smartcrawl.model.settings_table import setting_value


@dataclass(frozen=True, slots=True)
class GithubTarget:
    """The places of a GitHub, github.com or an Enterprise Server. It has no secret."""

    api: str  #: URL of the REST API, without a slash at its end
    raw: str  #: URL below which files are read, likewise
    web: str  #: origin of the web pages, likewise

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the places from the settings.

        Raises:
            SettingError: naming the setting and what it takes.
        """
        names = ("GITHUB_API_URL", "GITHUB_RAW_URL", "GITHUB_WEB_URL")
        return cls(*(setting_value(settings, name) for name in names))

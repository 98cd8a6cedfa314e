"""The origins of a GitHub, read from the settings once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import request_url


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
        return cls(
            api=_place(settings, "GITHUB_API_URL", "https://ghe.example.com/api/v3"),
            raw=_place(settings, "GITHUB_RAW_URL", "https://ghe.example.com/raw"),
            web=_place(settings, "GITHUB_WEB_URL", "https://ghe.example.com"),
        )


def _place(settings: Mapping[str, Any], name: str, example: str) -> str:
    text = str(settings[name] or "").strip()
    url = request_url(text)
    if url is None or "@" in urlsplit(text).netloc or "?" in text or "#" in text:
        raise SettingError(
            f"{name} is {redacted_text(text)!r}: it takes an http or https address without"
            " credentials"
            f" and query, such as {example}"
        )
    return url.rstrip("/")

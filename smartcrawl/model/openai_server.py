"""The options of a server with an API as OpenAI has it: its address, and how to connect to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import request_url

KEY_VARIABLE: Final = "OPENAI_API_KEY"  #: of the environment
_OPENAI: Final = "api.openai.com"
_REST: Final = re.compile(r"[?#].*", re.DOTALL)  #: parts that may have a key


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIServerOptions:
    """A server that texts are sent to. There is no key: it is in the environment alone."""

    url: str  #: base of the API, without a slash at its end
    ca_file: Path | None  #: authorities that are trusted beside those of the system
    has_proxies: bool  #: whether the environment's proxies count

    @property
    def destination(self) -> str:
        """The host that texts are sent to, with its port where it is not the scheme's."""
        return urlsplit(self.url).netloc

    @property
    def needs_key(self) -> bool:
        """Whether the server is known to refuse requests without a key."""
        return urlsplit(self.url).hostname == _OPENAI


def openai_url_option(settings: Mapping[str, Any], name: str, *, ending: str = "") -> str:
    """Return the base of an API, which ends in ``ending`` and in no slash.

    Raises:
        SettingError: it is no address, has another end, or has credentials or a query.
    """
    text = str(settings[name] or "").strip()
    url = (request_url(text) or "").rstrip("/")
    is_base = url and url.endswith(ending)
    if not is_base or "@" in urlsplit(text).netloc or "?" in text or "#" in text:
        that_ends = f" that ends in {ending}" if ending else ""
        raise SettingError(
            f"{name} is {redacted_text(_REST.sub('', text))!r}: it takes an http or https"
            f" address{that_ends}, without credentials and query, such as"
            " https://api.openai.com/v1; the key belongs in OPENAI_API_KEY"
        )
    return url

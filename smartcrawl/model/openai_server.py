"""The options of a server with an API as OpenAI has it: its address, and how to connect to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

KEY_VARIABLE: Final = "OPENAI_API_KEY"  #: of the environment
_OPENAI: Final = "api.openai.com"


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

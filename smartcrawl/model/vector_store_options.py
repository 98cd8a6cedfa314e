"""The settings of a vector store, read and validated once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.setting_values import (
    authorities_option,
    switch_option,
    whole_number_option,
)
from smartcrawl.model.urls import request_url

_OPENAI: Final = "api.openai.com"
_REST: Final = re.compile(r"[?#].*", re.DOTALL)  #: parts that may have a key
_ID: Final = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_:.-]{0,199}")


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreOptions:
    """The vector store that pages are pushed to. No field has a default, and there is no key."""

    url: str  #: base of the API, with /v1 at its end
    store: str  #: id of the store
    wait: int  #: seconds to wait until the store has embedded what it was given
    away: int  #: seconds to wait for a server that is away or busy, once in an outage
    ca_file: Path | None  #: authorities that are trusted beside those of the system
    has_proxies: bool  #: whether the environment's proxies count

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the options; None where ``VECTOR_STORE_ID`` is empty: nothing is pushed.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        store = str(settings["VECTOR_STORE_ID"] or "").strip()
        if store and not _ID.fullmatch(store):
            raise SettingError(
                f"VECTOR_STORE_ID is {store[:200]!r}: it takes the id of a vector store, such as"
                " vs_67fd0c12"
            )
        options = cls(
            url=_url(settings),
            store=store,
            wait=whole_number_option(settings, "VECTOR_STORE_WAIT_SECONDS"),
            away=whole_number_option(settings, "SINK_WAIT_SECONDS"),
            ca_file=authorities_option(settings, "CA_FILE"),
            has_proxies=switch_option(settings, "HTTPPROXY_ENABLED"),
        )
        return options if store else None

    @property
    def destination(self) -> str:
        """The host that texts are sent to, with its port where it is not the scheme's."""
        return urlsplit(self.url).netloc

    @property
    def needs_key(self) -> bool:
        """Whether the server is known to refuse requests without a key."""
        return urlsplit(self.url).hostname == _OPENAI


def _url(settings: Mapping[str, Any]) -> str:
    text = str(settings["VECTOR_STORE_URL"] or "").strip()
    url = request_url(text)
    wrong = url is None or "@" in urlsplit(text).netloc or "?" in text or "#" in text
    url = (url or "").rstrip("/")
    if wrong or not url.endswith("/v1"):
        raise SettingError(
            f"VECTOR_STORE_URL is {redacted_text(_REST.sub('', text))!r}: it takes an http or"
            " https address that ends in /v1, without credentials and query, such as"
            " https://api.openai.com/v1; the key belongs in OPENAI_API_KEY"
        )
    return url

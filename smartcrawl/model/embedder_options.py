"""The settings of vectors, read and validated once, before the first request."""

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

LOCAL: Final = "local"
EMBEDDERS: Final = (LOCAL, "openai")
MOST_DIMENSIONS: Final = 4_000  #: of the index of PostgreSQL's halfvec; Elasticsearch has 4,096
_MOST_TEXTS: Final = 2_048  #: in a request to OpenAI
_OPENAI: Final = "api.openai.com"
_REST: Final = re.compile(r"[?#].*", re.DOTALL)  #: parts that may have a key
_MODEL: Final = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions:
    """The options of an embedder. No field has a default: defaults are in ``settings.py``.

    All but ``name`` are those of ``openai``. There is no key: it is in the environment alone.
    """

    name: str  #: local or openai
    url: str  #: base of the API, without a slash at its end
    model: str
    dimension: int  #: numbers of each vector
    batch_texts: int  #: texts in a request, at most
    batch_tokens: int  #: estimated tokens in a request, at most
    timeout: int  #: seconds for one answer
    wait: int  #: seconds to wait for a server that is away, once in an outage
    ca_file: Path | None  #: authorities that are trusted beside those of the system
    has_proxies: bool  #: whether the environment's proxies count

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the options; None where ``EMBEDDER`` is empty: there are no vectors.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        name = str(settings["EMBEDDER"] or "").strip().lower()
        if name not in ("", *EMBEDDERS):
            raise SettingError(
                f"EMBEDDER is {settings['EMBEDDER']!r}: it takes one of {', '.join(EMBEDDERS)}, or"
                " nothing for no vectors"
            )
        options = cls(
            name=name,
            url=_url(settings),
            model=_model(settings),
            dimension=whole_number_option(
                settings, "EMBEDDING_DIMENSION", least=1, most=MOST_DIMENSIONS
            ),
            batch_texts=whole_number_option(
                settings, "EMBEDDING_BATCH_TEXTS", least=1, most=_MOST_TEXTS
            ),
            batch_tokens=whole_number_option(settings, "EMBEDDING_BATCH_TOKENS", least=1),
            timeout=whole_number_option(settings, "EMBEDDING_TIMEOUT_SECONDS", least=1),
            wait=whole_number_option(settings, "EMBEDDING_WAIT_SECONDS"),
            ca_file=authorities_option(settings, "CA_FILE"),
            has_proxies=switch_option(settings, "HTTPPROXY_ENABLED"),
        )
        return options if name else None

    @property
    def destination(self) -> str:
        """The host that texts are sent to, with its port where it is not the scheme's."""
        return urlsplit(self.url).netloc

    @property
    def needs_key(self) -> bool:
        """Whether the server is known to refuse requests without a key."""
        return urlsplit(self.url).hostname == _OPENAI


def _url(settings: Mapping[str, Any]) -> str:
    text = str(settings["EMBEDDING_URL"] or "").strip()
    url = request_url(text)
    if url is None or "@" in urlsplit(text).netloc or "?" in text or "#" in text:
        raise SettingError(
            f"EMBEDDING_URL is {redacted_text(_REST.sub('', text))!r}: it takes an http or https"
            " address without credentials and query, such as https://api.openai.com/v1; the key"
            " belongs in OPENAI_API_KEY"
        )
    url = url.rstrip("/")
    if url.endswith("/embeddings"):
        raise SettingError(
            f"EMBEDDING_URL is {text!r}: it takes the address without /embeddings at its end, such"
            f" as {url.removesuffix('/embeddings')}"
        )
    return url


def _model(settings: Mapping[str, Any]) -> str:
    model = str(settings["EMBEDDING_MODEL"] or "").strip()
    if not _MODEL.fullmatch(model):
        raise SettingError(
            f"EMBEDDING_MODEL is {settings['EMBEDDING_MODEL']!r}: it takes the name of a model of"
            " the server, such as text-embedding-3-small"
        )
    return model

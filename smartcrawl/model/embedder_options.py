"""The settings of vectors, read and validated once, before the first request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import OpenAIServerOptions, openai_url_option
from smartcrawl.model.setting_values import (
    authorities_option,
    switch_option,
    whole_number_option,
)
from smartcrawl.model.whole_path import whole_path

LOCAL: Final = "local"
ONNX: Final = "onnx"
EMBEDDERS: Final = (LOCAL, ONNX, "openai")
ON_THIS_MACHINE: Final = frozenset({LOCAL, ONNX})  #: those whose model is not in the settings
MOST_DIMENSIONS: Final = 4_000  #: of the index of PostgreSQL's halfvec; Elasticsearch has 4,096
_MOST_TEXTS: Final = 2_048  #: in a request to OpenAI
_MODEL: Final = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderOptions(OpenAIServerOptions):
    """The options of an embedder. No field has a default: defaults are in ``settings.py``.

    ``folder`` is that of ``onnx``; all others but ``name`` are those of ``openai``.
    """

    name: str  #: local, onnx or openai; empty: the settings name none
    folder: Path | None  #: of the model's files
    model: str
    dimension: int  #: numbers of each vector
    batch_texts: int  #: texts in a request, at most
    batch_tokens: int  #: estimated tokens in a request, at most
    timeout: int  #: seconds for one answer
    wait: int  #: seconds to wait for a server that is away, once in an outage

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the options; None where ``EMBEDDER`` is empty: a crawl makes no vectors.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        options = cls.of_questions(settings)
        return options if options.name else None

    @classmethod
    def of_questions(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options for questions: the registry may name the embedder, not the settings.

        Raises:
            SettingError: as of ``of``.
        """
        name = str(settings["EMBEDDER"] or "").strip().lower()
        if name not in ("", *EMBEDDERS):
            raise SettingError(
                f"EMBEDDER is {settings['EMBEDDER']!r}: it takes one of {', '.join(EMBEDDERS)}, or"
                " nothing for no vectors"
            )
        return cls(
            name=name,
            folder=_folder(settings, needs_it=name == ONNX),
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


def _url(settings: Mapping[str, Any]) -> str:
    url = openai_url_option(settings, "EMBEDDING_URL")
    if url.endswith("/embeddings"):
        raise SettingError(
            f"EMBEDDING_URL is {url!r}: it takes the address without /embeddings at its end, such"
            f" as {url.removesuffix('/embeddings')}"
        )
    return url


def missing_embedding_folder() -> SettingError:
    """Return the error of ``onnx`` without the folder of its model."""
    return SettingError(
        "EMBEDDING_FOLDER is empty, and the vectors are those of 'onnx': it takes the folder of a"
        " sentence model with model.onnx and tokenizer.json"
    )


def _folder(settings: Mapping[str, Any], *, needs_it: bool) -> Path | None:
    text = str(settings["EMBEDDING_FOLDER"] or "").strip()
    if text:
        return whole_path(text)
    if needs_it:
        raise missing_embedding_folder()
    return None


def _model(settings: Mapping[str, Any]) -> str:
    model = str(settings["EMBEDDING_MODEL"] or "").strip()
    if not _MODEL.fullmatch(model):
        raise SettingError(
            f"EMBEDDING_MODEL is {settings['EMBEDDING_MODEL']!r}: it takes the name of a model of"
            " the server, such as text-embedding-3-small"
        )
    return model

"""The settings of vectors, read and validated once, before the first request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import OpenAIServerOptions
from smartcrawl.model.settings_table import SETTINGS, setting_value

LOCAL: Final = "local"
ONNX: Final = "onnx"
ON_THIS_MACHINE: Final = frozenset({LOCAL, ONNX})  #: those whose model is not in the settings
#: The limit of an index of PostgreSQL's halfvec; Elasticsearch has 4,096.
MOST_DIMENSIONS: Final = int(SETTINGS["EMBEDDING_DIMENSION"].most)


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
        value_of = partial(setting_value, settings)
        name, folder = value_of("EMBEDDER"), value_of("EMBEDDING_FOLDER")
        if name == ONNX and folder is None:
            raise missing_embedding_folder()
        return cls(
            name=name,
            folder=folder,
            url=_url(value_of("EMBEDDING_URL")),
            model=value_of("EMBEDDING_MODEL"),
            dimension=value_of("EMBEDDING_DIMENSION"),
            batch_texts=value_of("EMBEDDING_BATCH_TEXTS"),
            batch_tokens=value_of("EMBEDDING_BATCH_TOKENS"),
            timeout=value_of("EMBEDDING_TIMEOUT_SECONDS"),
            wait=value_of("EMBEDDING_WAIT_SECONDS"),
            ca_file=value_of("CA_FILE"),
            has_proxies=value_of("HTTPPROXY_ENABLED"),
        )


def _url(url: str) -> str:
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

"""The embedder that the settings choose."""

from __future__ import annotations

from smartcrawl.index.embedding.ports import Embedder
from smartcrawl.model.documents import EmbedderKey
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import (
    LOCAL,
    ON_THIS_MACHINE,
    ONNX,
    EmbedderOptions,
    missing_embedding_folder,
)
from smartcrawl.model.options import Options
from smartcrawl.model.program import extra_installation


def open_embedder(options: Options) -> Embedder | None:
    """Return the embedder of ``EMBEDDER``; None: there are no vectors. Nothing is sent yet.

    The modules of the others, and their packages, are not loaded.

    Raises:
        SettingError: a package or the key is missing, or the key cannot be one.
    """
    if options.embedder is None:
        return None
    return open_embedder_of(options.embedder)


def embedder_key(options: EmbedderOptions) -> EmbedderKey:
    """Return the key of the vectors of an embedder; a model on this machine is loaded.

    Raises:
        SettingError: a package or a file of that model is missing.
    """
    if options.name in ON_THIS_MACHINE:
        opened = open_embedder_of(options)
        return EmbedderKey(opened.name, opened.model, opened.dimension)
    return EmbedderKey(options.name, options.model, options.dimension)


def open_embedder_of(options: EmbedderOptions) -> Embedder:
    """Return the embedder that has these options.

    Raises:
        SettingError: as of ``open_embedder``.
    """
    if options.name == LOCAL:
        from smartcrawl.index.embedding.local import LocalEmbedder  # noqa: PLC0415  # of an extra

        return LocalEmbedder()
    if options.name == ONNX:
        from smartcrawl.index.embedding.onnx import OnnxEmbedder  # noqa: PLC0415  # likewise

        if options.folder is None:  # another embedder is chosen, and the stored vectors are its
            raise missing_embedding_folder()
        return OnnxEmbedder(options.folder)
    try:
        from smartcrawl.index.embedding.openai import OpenAIEmbedder  # noqa: PLC0415  # likewise
    except ImportError as error:
        raise SettingError(
            f"the embedder 'openai' needs a package that is not installed ({error}): run"
            f" {extra_installation('openai')}; or leave EMBEDDER empty"
        ) from error
    return OpenAIEmbedder.open(options)

"""The vector of a query, by the embedder that made the vectors of the chunks."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path

from smartcrawl.index.embedded.vectors import (
    QueryMeaning,
    StoredEmbedder,
    VectorQuery,
    count_index_texts_to_embed,
    whole_index_embedders,
)
from smartcrawl.index.embedding.choice import open_embedder_of
from smartcrawl.index.embedding.ports import Embedder, RefusedText
from smartcrawl.index.queries import search_query_text
from smartcrawl.model.embedder_options import LOCAL, ON_THIS_MACHINE, ONNX, EmbedderOptions
from smartcrawl.model.exceptions import EmbedderError, NoVectorsError
from smartcrawl.model.index_pages import EmbedderKey
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection


class SearchMode(StrEnum):
    """Kinds of searches, by what counts."""

    BEST = ""  #: hybrid once every chunk has had its vector, else text
    TEXT = "text"  #: words
    VECTOR = "vector"  #: meaning
    HYBRID = "hybrid"  #: both, joined by their ranks


def query_meaning(
    connection: Connection,
    options: Options,
    mode: SearchMode,
    indexed: EmbedderKey | None = None,
) -> QueryMeaning | None:
    """Return the function that finds the vector of a query; None: only words count.

    ``indexed``: the embedder whose vectors an index elsewhere has. The function raises
    NoVectorsError where the query has no meaning, EmbedderError where the embedder does not answer,
    and SettingError where it cannot be opened.

    Raises:
        NoVectorsError: ``mode`` needs vectors, and there are none.
    """
    if mode is SearchMode.TEXT:
        return None
    stored = _searched_embedder(connection, options, indexed)
    if stored is None:
        if mode is SearchMode.BEST:
            return None
        raise NoVectorsError(_missing(options, mode, indexed))
    return partial(_query_vector, stored, _options_of(stored, options), mode)


def _query_vector(
    stored: StoredEmbedder, options: EmbedderOptions, mode: SearchMode, query: str
) -> VectorQuery:
    """Return the vector of a query by the embedder that made the stored vectors.

    Raises:
        NoVectorsError: its text has no meaning for the model.
        EmbedderError: the embedder does not answer, or this installation has another version of it.
        SettingError: it cannot be opened: a package or the key is missing.
    """
    try:
        embedder = _opened(options)
        if embedder.model != stored.model:  # another version of the package
            raise EmbedderError(
                f"the vectors are of {stored.model}, and this installation has {embedder.model}:"
                f" run {program_name()} embed",
                lasting=True,
            )
        found = embedder.embed_query(search_query_text(query))
    except EmbedderError as error:
        if error.lasting:  # for a run; the next search of this process asks again
            _opened.cache_clear()
        raise
    if isinstance(found, RefusedText):
        raise NoVectorsError(f"the query has no vector, {found.reason}")
    reads = embedder.name != LOCAL  # which adds up the words of a text
    only = mode is SearchMode.VECTOR
    return VectorQuery(stored.no, found, only=only, reads_sentences=reads)


def _missing(options: Options, mode: SearchMode, indexed: EmbedderKey | None) -> str:
    if options.elasticsearch is not None and indexed is None and options.embedder is not None:
        return (
            f"mode {mode} needs vectors, and the index has no field for them: run {program_name()}"
            " reindex --from-registry"
        )
    if options.embedder is None:
        return (
            f"mode {mode} needs vectors: set EMBEDDER to local, onnx or openai, and run"
            f" {program_name()} embed"
        )
    return f"mode {mode} needs vectors, and there are none yet: run {program_name()} embed"


def _searched_embedder(
    connection: Connection, options: Options, indexed: EmbedderKey | None
) -> StoredEmbedder | None:
    """Return the embedder whose vectors are searched: that of the settings, once it is whole.

    One that was whole before another was may lack vectors of pages that came meanwhile. An index
    elsewhere has the vectors of one embedder, ``indexed``. Where the settings name no embedder,
    that of the registry counts, if its place is known.
    """
    whole = whole_index_embedders(connection)
    if options.embedder is None:
        whole = [one for one in whole if one.name == LOCAL or one.location]
    if options.elasticsearch is not None:
        return next((one for one in whole if one.key == indexed), None)
    own = [one for one in whole if options.embedder is not None and _is_of(one, options.embedder)]
    if own and (own[0] == whole[0] or not count_index_texts_to_embed(connection, own[0].no)):
        return own[0]
    return next(iter(whole), None)


def _is_of(stored: StoredEmbedder, options: EmbedderOptions) -> bool:
    """Whether an embedder is that of the settings.

    The settings do not name the model of an embedder on this machine.
    """
    own = EmbedderKey(options.name, options.model, options.dimension)
    return stored.name == options.name and (options.name in ON_THIS_MACHINE or stored.key == own)


def _options_of(stored: StoredEmbedder, options: Options) -> EmbedderOptions:
    """Return the options of the embedder that made the stored vectors.

    The settings say where it is if they name it; else the registry does.
    """
    chosen = options.embedder or options.question_embedder
    found = replace(chosen, name=stored.name, model=stored.model, dimension=stored.dimension)
    if chosen.name == stored.name or stored.location is None:
        return found
    if stored.name == ONNX:
        return replace(found, folder=Path(stored.location))
    return replace(found, url=stored.location)


@lru_cache(2)
def _opened(options: EmbedderOptions) -> Embedder:
    return open_embedder_of(options)

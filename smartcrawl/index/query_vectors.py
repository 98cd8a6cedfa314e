"""The vector of a query, by the embedder that made the vectors of the chunks."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from functools import lru_cache

from smartcrawl.index.embedded.vectors import StoredEmbedder, VectorQuery, whole_embedders
from smartcrawl.index.embedding.choice import open_embedder_of
from smartcrawl.index.embedding.ports import Embedder, RefusedText, Vector
from smartcrawl.index.queries import parsed_search_query, search_query_text
from smartcrawl.model.embedder_options import EmbedderOptions
from smartcrawl.model.exceptions import EmbedderError, NoVectorsError, SettingError
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection


class SearchMode(StrEnum):
    """Kinds of searches, by what counts."""

    BEST = ""  #: hybrid where every chunk has its vector, else text
    TEXT = "text"  #: words
    VECTOR = "vector"  #: meaning
    HYBRID = "hybrid"  #: both, joined by their ranks


def query_vector(
    connection: Connection, query: str, options: Options, mode: SearchMode
) -> tuple[VectorQuery | None, str]:
    """Return the vector of a query, and why meaning does not count although vectors are there.

    No vector: only the words of the query count.

    Raises:
        NoVectorsError: ``mode`` needs vectors, and there are none, or none of the query.
        EmbedderError: ``mode`` needs the embedder, which does not answer.
        SettingError: ``mode`` needs the embedder, which cannot be opened.
    """
    if mode is SearchMode.TEXT:
        return None, ""
    is_asked = mode is not SearchMode.BEST
    stored = _searched_embedder(connection, options)
    if stored is None or options.embedder is None:
        if is_asked:
            raise NoVectorsError(_missing(options, mode))
        return None, ""
    if not parsed_search_query(query).terms:  # nothing is found, whichever the mode
        return None, ""
    try:
        found = _embedded(query, stored, options.embedder)
    except (EmbedderError, SettingError) as error:
        if is_asked:
            raise
        return None, f"only words counted: {error}"
    if isinstance(found, RefusedText):
        reason = f"the query has no vector, {found.reason}"
        if mode is SearchMode.VECTOR:
            raise NoVectorsError(f"{reason}: search by words")
        return None, f"only words counted: {reason}"
    return VectorQuery(stored.no, found, only=mode is SearchMode.VECTOR), ""


def _embedded(query: str, stored: StoredEmbedder, options: EmbedderOptions) -> Vector | RefusedText:
    """Return the vector of a query by the embedder that made the stored vectors.

    Raises:
        EmbedderError: it does not answer, or this installation has another version of its model.
        SettingError: it cannot be opened: a package or the key is missing.
    """
    try:
        embedder = _opened(_options_of(stored, options))
        if embedder.model != stored.model:  # another version of the package
            raise EmbedderError(
                f"the vectors are of {stored.model}, and this installation has {embedder.model}:"
                f" run {program_name()} embed",
                lasting=True,
            )
        return embedder.embed([search_query_text(query)])[0]
    except EmbedderError as error:
        if error.lasting:  # for a run; the next search of this process asks again
            _opened.cache_clear()
        raise


def _missing(options: Options, mode: SearchMode) -> str:
    if options.embedder is None:
        return (
            f"mode {mode} needs vectors: set EMBEDDER to local or openai, and run"
            f" {program_name()} embed"
        )
    return f"mode {mode} needs vectors, and there are none yet: run {program_name()} embed"


def _searched_embedder(connection: Connection, options: Options) -> StoredEmbedder | None:
    """Return the embedder whose vectors are searched: that of the settings, once it is whole."""
    if options.embedder is None or options.elasticsearch or connection.dialect != "sqlite":
        return None
    whole = whole_embedders(connection)
    own = [one for one in whole if _is_of(one, options.embedder)]
    return next(iter((*own, *whole)), None)


def _is_of(stored: StoredEmbedder, options: EmbedderOptions) -> bool:
    """Whether an embedder is that of the settings; the local one has a model of its own."""
    own = (options.name, options.model, options.dimension)
    return stored.name == options.name and (options.name == "local" or stored[1:] == own)


def _options_of(stored: StoredEmbedder, options: EmbedderOptions) -> EmbedderOptions:
    """Return the options of the embedder that made the stored vectors."""
    return replace(options, name=stored.name, model=stored.model, dimension=stored.dimension)


@lru_cache(2)
def _opened(options: EmbedderOptions) -> Embedder:
    return open_embedder_of(options)

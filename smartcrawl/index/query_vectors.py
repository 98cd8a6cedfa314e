"""The vector of a query, by the embedder that made the vectors of the chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from smartcrawl.index.embedded.vectors import (
    QueryMeaning,
    StoredEmbedder,
    VectorLacks,
    VectorQuery,
    check_answering_model,
    count_index_texts_to_embed,
    index_vector_lacks,
    whole_index_embedders,
)
from smartcrawl.index.embedding.ports import RefusedText, Vector
from smartcrawl.index.lacking_pages import contents_lacking_vectors, documents_lacking_vectors
from smartcrawl.index.queries import search_query_text
from smartcrawl.index.question_embedders import SECONDS, QuestionEmbedders
from smartcrawl.model.embedder_options import LOCAL, ON_THIS_MACHINE, ONNX, EmbedderOptions
from smartcrawl.model.exceptions import (
    EmbedderError,
    NoVectorsError,
    SettingError,
    SmartcrawlError,
)
from smartcrawl.model.index_pages import EmbedderKey
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection

_T = TypeVar("_T")

EMBEDDERS: Final = QuestionEmbedders()  #: of this process


class SearchMode(StrEnum):
    """Kinds of searches, by what counts."""

    BEST = ""  #: hybrid once every chunk has had its vector, else text
    TEXT = "text"  #: words
    VECTOR = "vector"  #: meaning
    HYBRID = "hybrid"  #: both, joined by their ranks


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question for an embedder."""

    stored: StoredEmbedder  #: that made the vectors of the chunks
    options: EmbedderOptions
    text: str


class UnembeddedError(Exception):
    """A question has no vector yet; its embedder is asked while no connection is lent."""

    def __init__(self, asked: _Asked) -> None:
        super().__init__(asked.text)
        self.asked = asked


class QuestionVectors:
    """The vectors of the question of one search, also of its corrected form."""

    def __init__(self, *, at_once: bool = False, embedders: QuestionEmbedders = EMBEDDERS) -> None:
        """With ``at_once`` the embedder is asked in the search, while its connection is lent."""
        self._at_once, self._embedders = at_once, embedders
        self._found: dict[_Asked, Vector | SmartcrawlError] = {}
        self._lacks: dict[tuple[int, tuple[str, ...]], VectorLacks] = {}
        self._left = SECONDS

    def lacks(
        self, connection: Connection, stored: StoredEmbedder, sources: Sequence[str]
    ) -> VectorLacks:
        """Return the chunks without a vector, counted once for all looks of a search.

        Those without a meaning for a model on this machine are left out.
        """
        key = stored.no, tuple(sources)
        if key not in self._lacks:
            found = index_vector_lacks(connection, stored.no, sources)
            is_final = stored.name in ON_THIS_MACHINE
            self._lacks[key] = found._replace(refused=()) if is_final else found
        return self._lacks[key]

    def vector(self, asked: _Asked) -> Vector:
        """Return the vector of a question.

        Raises:
            UnembeddedError: it was not asked for.
            NoVectorsError: its text has no meaning for the model.
            EmbedderError: the embedder does not answer, or this installation has another version
                of it.
            SettingError: it cannot be opened: a package or the key is missing.
        """
        if asked not in self._found:
            if not self._at_once:
                raise UnembeddedError(asked)
            self.embed(asked)
        found = self._found[asked]
        if isinstance(found, SmartcrawlError):
            raise found
        return found

    def embed(self, asked: _Asked) -> None:
        """Ask the embedder for a question; all of a search have two seconds together."""
        began = time.monotonic()
        try:
            self._found[asked] = self._embedded(asked)
        except (NoVectorsError, EmbedderError, SettingError) as error:
            self._found[asked] = error
        self._left -= time.monotonic() - began

    def _embedded(self, asked: _Asked) -> Vector:
        if last := self._embedders.last_answering(asked.options):
            check_answering_model(asked.stored, last)  # another model is asked nothing more
        text = search_query_text(asked.text)
        found, model, now = self._embedders.answer(asked.options, text, self._left)
        check_answering_model(asked.stored, now)
        if model != asked.stored.model:  # another version of the package
            raise EmbedderError(
                f"the vectors are of {asked.stored.model}, and this installation has {model}:"
                f" run {program_name()} embed",
                lasting=True,
            )
        if isinstance(found, RefusedText):
            raise NoVectorsError(f"the query has no vector, {found.reason}")
        return found


class SearchedVectors(NamedTuple):
    """The vectors that a search compares its query with."""

    stored: StoredEmbedder  #: that made them
    meaning: QueryMeaning  #: finds the vector of a query; raises what ``QuestionVectors`` does


def answer_with_question_vectors(
    read: Callable[[Callable[[Connection], _T | UnembeddedError]], _T | UnembeddedError],
    work: Callable[[Connection, QuestionVectors], _T],
) -> _T:
    """Return the result of ``work``; for each try ``read`` lends a connection.

    A question is embedded between two tries, so that no connection waits for an embedder.
    """
    vectors = QuestionVectors()

    def tried(connection: Connection) -> _T | UnembeddedError:
        try:
            return work(connection, vectors)
        except UnembeddedError as error:
            return error  # an error would cost the connection

    while isinstance(found := read(tried), UnembeddedError):
        vectors.embed(found.asked)
    return found


def query_meaning(
    connection: Connection,
    options: Options,
    mode: SearchMode,
    vectors: QuestionVectors,
    indexed: EmbedderKey | None = None,
) -> SearchedVectors | None:
    """Return the vectors that a search compares with; None: only words count.

    ``indexed``: the embedder whose vectors an index elsewhere has.

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
    chosen = _options_of(stored, options)

    lacking: Callable[[Collection[Any]], dict[Any, bool]]
    if indexed is None:
        lacking = partial(contents_lacking_vectors, connection, stored.no)
    else:
        lacking = partial(documents_lacking_vectors, connection)

    def meaning(query: str) -> VectorQuery:
        return VectorQuery(
            stored.no,
            vectors.vector(_Asked(stored, chosen, query)),
            only=mode is SearchMode.VECTOR,
            reads_sentences=stored.name != LOCAL,  # which adds up the words of a text
            lacking=lacking,
        )

    return SearchedVectors(stored, meaning)


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

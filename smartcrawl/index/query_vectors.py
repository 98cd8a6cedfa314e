"""The vector of a query, by the embedder that made the vectors of the chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

from smartcrawl.index.elasticsearch.documents import index_document_key
from smartcrawl.index.embedded.vectors import (
    StoredEmbedder,
    VectorLacks,
    check_answering_model,
    count_index_texts_to_embed,
    index_vector_lacks,
    whole_index_embedders,
)
from smartcrawl.index.embedding.choice import open_embedder_of
from smartcrawl.index.embedding.ports import PAUSE, Embedder, RefusedText, Vector
from smartcrawl.index.queries import search_query_text
from smartcrawl.index.ranking import QueryMeaning, VectorQuery
from smartcrawl.model.documents import EmbedderKey
from smartcrawl.model.exceptions import (
    EmbedderAwayError,
    EmbedderError,
    NoVectorsError,
    SettingError,
    SmartcrawlError,
)
from smartcrawl.model.option_groups import LOCAL, ON_THIS_MACHINE, ONNX, EmbedderOptions
from smartcrawl.model.options import Options
from smartcrawl.model.patience import EndableCalls
from smartcrawl.model.program import program_name
from smartcrawl.registry.chunks import vector_table
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql
from smartcrawl.rules.vectors import Answering

_CONTENTS = """
SELECT k.content, count(v.hash) FROM chunk k
  LEFT JOIN {vector} v ON v.hash = k.hash AND v.embedder = ? AND v.vector IS NOT NULL
 WHERE k.content IN carray(?) GROUP BY k.content HAVING count(v.hash) < count(*)
"""
#: Of contents without rows nothing is known: their documents have no vector.
_DOCUMENTS = """
SELECT o.name, r.id, r.sunk_vectors FROM record r JOIN source o ON o.no = r.source
 WHERE r.id IN carray(?)
   AND r.sunk_vectors < coalesce(nullif((SELECT count(*) FROM remote_chunk k
                                          WHERE k.content = r.content), 0), 1)
"""


def contents_lacking_vectors(
    connection: Connection, embedder: int, contents: Collection[int]
) -> dict[int, bool]:
    """Return those of some contents that lack a vector, and whether they have any."""
    statement = _CONTENTS.format(vector=vector_table(connection))
    rows: Any = connection.execute(statement, (embedder, numbers_for_sql(contents)))
    return {content: bool(number) for content, number in rows.fetchall()}


def documents_lacking_vectors(connection: Connection, keys: Collection[str]) -> dict[str, bool]:
    """Return those of some documents of a remote index that lack a vector; whether they have any.

    ``keys``: their ids in the index.
    """
    digests = Many(sorted({bytes.fromhex(key.rpartition(":")[2]) for key in keys}))
    rows: Any = connection.execute(_DOCUMENTS, (digests,)).fetchall()
    return {index_document_key(source, id_): number > 0 for source, id_, number in rows}


SECONDS: Final = 2.0  #: that a server has to answer a question
_MOST_OPEN: Final = 2  #: embedders that stay open: the former one and that of the settings


class QuestionAnswer(NamedTuple):
    """The answer of an embedder to a question."""

    vector: Vector | RefusedText
    model: str  #: of the embedder that was asked
    answering: Answering  #: as it answered


class _Pause(NamedTuple):
    """The time in which an embedder is asked nothing."""

    until: float
    error: EmbedderError


class QuestionEmbedders:
    """Embedders for questions; one that failed is asked nothing for a minute, by no search.

    A server is not waited for: a search by words is better than a late one. It may be used by
    several threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` measures seconds."""
        self._clock, self._lock = clock, Lock()
        self._open: dict[EmbedderOptions, Embedder] = {}
        self._pauses: dict[EmbedderOptions, _Pause] = {}
        self._answering: dict[EmbedderOptions, Answering] = {}
        self._calls = EndableCalls()

    def answer(
        self, options: EmbedderOptions, text: str, seconds: float = SECONDS
    ) -> QuestionAnswer:
        """Return the vector of a question; a server has ``seconds`` to answer.

        Raises:
            EmbedderError: it did not answer, or failed less than a minute ago.
            SettingError: it cannot be opened.
        """
        self._check_pause(options)
        embedder = self._opened(options)
        if options.name in ON_THIS_MACHINE:
            found = embedder.embed_query(text)
            return QuestionAnswer(found, embedder.model, Answering(None, None))
        try:
            found = self._calls.made(lambda: embedder.embed_query(text), max(0.0, seconds))
        except TimeoutError:
            within = f"no vector of the question within {SECONDS:g} s"
            error = EmbedderAwayError(str(embedder.destination), within, PAUSE)
            raise self._failed(options, embedder, error) from None
        except EmbedderError as error:
            raise self._failed(options, embedder, error) from None
        answering = Answering(embedder.answered_by, embedder.location)
        self._answering[options] = answering
        return QuestionAnswer(found, embedder.model, answering)

    def last_answering(self, options: EmbedderOptions) -> Answering | None:
        """Return how a server answered last; None: it was not asked."""
        return self._answering.get(options)

    def forget(self) -> None:
        """Close all embedders, and end their pauses."""
        with self._lock:
            closing = list(self._open.values())
            self._open.clear()
            self._pauses.clear()
            self._answering.clear()
        for embedder in closing:
            embedder.close()

    def _check_pause(self, options: EmbedderOptions) -> None:
        with self._lock:
            pause = self._pauses.get(options)
            if pause is None:
                return
            left = pause.until - self._clock()
            if left <= 0:
                del self._pauses[options]
                return
        raise _as_of_now(pause.error, left)

    def _opened(self, options: EmbedderOptions) -> Embedder:
        with self._lock:
            if options not in self._open:
                patient = replace(options, wait=0, timeout=min(options.timeout, int(SECONDS) + 1))
                opened = open_embedder_of(patient)
                while len(self._open) >= _MOST_OPEN:
                    self._open.pop(next(iter(self._open)))  # another thread may use it
                self._open[options] = opened
            return self._open[options]

    def _failed(
        self, options: EmbedderOptions, embedder: Embedder, error: EmbedderError
    ) -> EmbedderError:
        """Begin a pause; return the error of this failure, or of the one that began it before."""
        seconds = error.seconds if isinstance(error, EmbedderAwayError) else PAUSE
        with self._lock:
            pause = self._pauses.setdefault(options, _Pause(self._clock() + seconds, error))
            if self._open.get(options) is embedder:
                del self._open[options]
        embedder.close()  # what still waits asks nothing more
        return _as_of_now(pause.error, pause.until - self._clock())


def _as_of_now(error: EmbedderError, left: float) -> EmbedderError:
    if isinstance(error, EmbedderAwayError):
        return EmbedderAwayError(error.host, error.reason, left)
    return EmbedderError(str(error), lasting=error.lasting)


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

"""Words of stored texts made anew, after a change of their analysis, without any download.

A text keeps its former words until it has new ones, so that searches answer meanwhile. A process
that dies loses the present step alone; the next one that writes goes on behind the last step.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from smartcrawl.index.analysis.stems import ANALYSIS_VERSION, chunk_words
from smartcrawl.index.analysis.vectors import words_vector
from smartcrawl.index.embedded.sqlite import stored_name_words
from smartcrawl.index.embedded.state import UNTIL
from smartcrawl.registry.connection import Connection, Many, transaction
from smartcrawl.registry.database.choices import store_choice_row, stored_choices

logger = logging.getLogger(__name__)

VERSION: Final = "words analysis"  #: choice: the analysis that made the words
_STEP: Final = 500  #: chunks of one transaction
_QUIET: Final = 2.0  #: seconds without a line
_BETWEEN: Final = 10.0  #: seconds between two lines
_HOLDS: Final = "SELECT 1 FROM chunk LIMIT 1"
_STATE: Final = {
    "sqlite": "SELECT value FROM choice WHERE name = ?",
    "postgres": "SELECT value FROM choice WHERE name = ? FOR UPDATE",
}
_ROWS: Final = """
SELECT k.no, k.title, k.headings, k.text, k.pictures, coalesce(c.language, k.language),
       k.places, k.position
  FROM chunk k LEFT JOIN content c ON c.no = k.content WHERE k.no > ? ORDER BY k.no LIMIT ?
"""
_COUNT: Final = "SELECT count(*) FROM chunk WHERE no > ?"
_DONE: Final = "DELETE FROM choice WHERE name = ?"
_PUT: Final = """
INSERT OR REPLACE INTO chunk_words (rowid, title, headings, text, pictures) VALUES (?, ?, ?, ?, ?)
"""
_LANGUAGE: Final = "UPDATE chunk SET language = ?1 WHERE no = ?2 AND language <> ?1"
_WORDS: Final = """
UPDATE chunk SET language = n.language, words = n.words::tsvector
  FROM unnest(?::bigint[], ?::text[], ?::text[]) AS n (no, language, words) WHERE chunk.no = n.no
"""
_EMPTY: Final = "INSERT INTO chunk_words_former (chunk_words_former) VALUES ('delete-all')"

Report = Callable[[int, int], None]  #: of the chunks that have new words, and of all


def stored_words_until(connection: Connection) -> int | None:
    """Return the last chunk that has words of this version; None: all have."""
    found = connection.execute(_STATE["sqlite"], (UNTIL,)).get
    return None if found is None else int(found)


def analyze_stored_texts(connection: Connection, report: Report | None = None) -> int:
    """Make the words of stored texts anew where another analysis made them; return their number.

    ``report`` is called after each step. Several processes may do this together.
    """
    known = stored_choices(connection)
    if UNTIL not in known and known.get(VERSION) == ANALYSIS_VERSION:
        return 0
    with transaction(connection):
        _begin(connection)
    total = 0
    if (until := stored_words_until(connection)) is not None:
        total = int(connection.execute(_COUNT, (until,)).get)
    shown = report or _Log()
    done = 0
    while (count := _step(connection)) is not None:
        done += count
        shown(min(done, total), total)
    return done


def _begin(connection: Connection) -> None:
    """Note the version; all words wait where another one made them."""
    made = connection.execute(_STATE[connection.dialect], (VERSION,)).get
    if made == ANALYSIS_VERSION:
        return
    store_choice_row(connection, VERSION, ANALYSIS_VERSION)
    if connection.execute(_HOLDS).get and (
        made is not None or stored_words_until(connection) is not None
    ):
        store_choice_row(connection, UNTIL, "0")


def _step(connection: Connection) -> int | None:
    """Make the next words in one transaction; return of how many chunks, None: of no more."""
    with transaction(connection):
        until = connection.execute(_STATE[connection.dialect], (UNTIL,)).get
        if until is None:
            return None
        rows: list[Any] = connection.execute(_ROWS, (int(until), _STEP)).fetchall()
        if connection.dialect == "postgres":
            words = [(no, row[4], words_vector(*row[:5], names=_names(row))) for no, *row in rows]
            if words:
                connection.execute(_WORDS, tuple(map(Many, zip(*words, strict=True))))
        else:
            connection.executemany(
                _PUT, [(no, *chunk_words(*row[:5], names=_names(row))) for no, *row in rows]
            )
            connection.executemany(_LANGUAGE, [(row[5], row[0]) for row in rows])
        if len(rows) == _STEP:
            store_choice_row(connection, UNTIL, str(rows[-1][0]))
            return len(rows)
        connection.execute(_DONE, (UNTIL,))
        if connection.dialect == "sqlite":
            connection.execute(_EMPTY)
    return len(rows)


def _names(row: Sequence[Any]) -> str:
    """Return the names of a row without its number."""
    return stored_name_words(row[0], row[1], row[2], row[5], row[6])


class _Log:
    """Tells the progress of what takes longer than two seconds.

    These are warnings, which a command prints while its log is off: it seems to stand still.
    """

    def __init__(self) -> None:
        self._next = time.monotonic() + _QUIET

    def __call__(self, done: int, total: int) -> None:
        """Tell how many chunks are done, after two seconds and then every ten."""
        now = time.monotonic()
        if now >= self._next and done < total:
            self._next = now + _BETWEEN
            logger.warning(
                "the words of stored texts are made anew, once after an upgrade;"
                " searches answer meanwhile: %s of %s chunks",
                f"{done:,}",
                f"{total:,}",
            )

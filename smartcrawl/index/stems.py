"""Words as the embedded index has them: without accents, in lower case, stemmed.

One tokenizer for all indexes, SQLite's own, so that they rank alike.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import apsw

TOKENIZER: Final = ("porter", "unicode61", "remove_diacritics", "2")  #: as in the schema


@cache
def _tokenizer(*chain: str) -> Callable[..., Any]:
    connection = apsw.Connection(":memory:")
    return connection.fts5_tokenizer(chain[0], list(chain[1:]))


def _tokens(text: str, *chain: str) -> list[str]:
    found: list[str] = _tokenizer(*chain)(
        text.encode("utf-8", "replace"),
        apsw.FTS5_TOKENIZE_DOCUMENT,
        None,
        include_offsets=False,
        include_colocated=False,
    )
    return found


def index_stems(text: str) -> list[str]:
    """Return the stems of a text in their order.

    >>> index_stems("Uncommitted changes: Häuser")
    ['uncommit', 'chang', 'hauser']
    """
    return _tokens(text, *TOKENIZER)


def index_words(text: str) -> list[str]:
    """Return the words of a text in their order, without accents and in lower case.

    >>> index_words("don't Café_2")
    ['don', 't', 'cafe', '2']
    """
    return _tokens(text, *TOKENIZER[1:])

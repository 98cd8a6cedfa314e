"""Parsing of search queries, the same for every index."""

from __future__ import annotations

import re

_WORD = re.compile(r'"([^"]+)"|(\S+)')


def phrases(query: str) -> list[str]:
    """Return the words of a query and its "quoted words", which stay together, in their order.

    Words without a letter or digit are left out, and so are characters that no index takes: NUL
    and halves of surrogate pairs.

    >>> phrases('don"t  "error code" 42 ?!')
    ['don', 't', 'error code', '42']
    """
    found = []
    sayable = query.replace("\0", " ").encode("utf-8", "ignore").decode()
    for quoted, word in _WORD.findall(sayable):
        parts = [quoted] if quoted else word.split('"')
        found += [part for part in parts if any(c.isalnum() for c in part)]
    return found

"""The questions of bench/quality: their files, their sets of pages, and how answers are rated."""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from bench.measure import BENCH, UnavailableError
from tests.servers import debian_docs
from tests.servers.debian import unpacked

KINDS: Final = ("sentence", "words", "misspelt", "other")
FIRST: Final = 3  #: hits among which the right page must be
DEPTH: Final = 10  #: hits that count for nDCG
KNOWN: Final = ("git", "python")  #: sets with known items
#: Debian packages of the sets, and a page from which all others are reached.
SETS: Final = {
    "git": ("git-doc", "index.html"),
    "sqlite": ("sqlite3-doc", "docs.html"),
    "postgresql": ("postgresql-doc-15", "index.html"),
    "python": ("python3-doc", "index.html"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """One written question."""

    kind: str  #: one of KINDS; of known items ``name`` or ``title``
    text: str
    right: frozenset[str]  #: paths of the right pages, below the root of the set
    tuning: bool  #: whether the ranking may be tuned by it; only the others are reported


def questions(name: str, folder: Path = BENCH / "quality_questions") -> list[Question]:
    """Return the questions about a set; every other one of each kind is for tuning.

    ``NAME-names`` are the known items of the set NAME.
    """
    count = Counter[str]()
    found = []
    for line in (folder / f"{name}.tsv").read_text().splitlines():
        kind, text, right = line.split("\t")
        count[kind] += 1
        found.append(Question(kind, text, frozenset(right.split()), tuning=count[kind] % 2 == 1))
    return found


def pages_of(name: str) -> Path:
    """Return the folder of a set's pages, fetched at first use.

    Raises:
        UnavailableError: the package cannot be had.
    """
    package, start = SETS[name]

    def root(tree: Path) -> Path | None:
        found = sorted((tree / "usr/share/doc").glob(f"*/{start}"))
        return found[0].parent.resolve() if found else None

    try:
        if start == "index.html":
            return debian_docs(package)
        tree = unpacked(package, root, follow=re.compile(r"-doc\b"))
    except pytest.skip.Exception as error:
        raise UnavailableError(str(error)) from None
    pages = root(tree)
    if pages is None:
        raise UnavailableError(f"{tree} has no {start}; remove it")
    return pages


def in_first(found: Sequence[str], right: Collection[str]) -> float:
    """Return 1 if a right page is among the first three, else 0."""
    return float(any(page in right for page in found[:FIRST]))


def ndcg(found: Sequence[str], right: Collection[str]) -> float:
    """Return nDCG@10; every right page has the gain 1.

    >>> ndcg(["a", "b"], {"a"}), round(ndcg(["b", "a"], {"a"}), 2)
    (1.0, 0.63)
    """
    gained = sum(1 / math.log2(n + 2) for n, page in enumerate(found[:DEPTH]) if page in right)
    return gained / sum(1 / math.log2(n + 2) for n in range(min(len(right), DEPTH)))

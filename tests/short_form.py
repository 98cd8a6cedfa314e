"""Choose the tests of the short form; ``pytest -m slow`` runs all others.

Whole runs and requests to the API behave alike over SQLite and PostgreSQL, so that each such test
is run with one of them in the short form: half of the tests with either. What the two databases
do by themselves is tested in tests/registry, always with both. Likewise a library is read by one
API of the two, REST or Graph, where a test is about what becomes of its items.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final
from zlib import crc32

import pytest

DATABASES: Final = ("sqlite", "postgres")
APIS: Final = ("rest", "graph")
_WHOLE_RUNS: Final = ("tests/crawls/", "tests/server/")  #: where one database is enough
_LIBRARIES: Final = "tests/crawls/test_library_"  #: where one API is enough …
#: … but for what the two do by themselves, and for the edge cases of the requirements.
_BOTH_APIS: Final = tuple(
    f"{_LIBRARIES}{name}.py" for name in ("edges", "faults", "histories", "kill", "refusals")
)


def left_to_slow(items: Sequence[pytest.Item]) -> set[str]:
    """Return the ids of tests that are not part of the short form."""
    out = {item.nodeid for item in items if item.get_closest_marker("slow")}
    for words, is_enough in ((DATABASES, _is_whole_run), (APIS, _is_of_a_library)):
        for twins in _twins((item for item in items if item.nodeid not in out), words, is_enough):
            kept = chosen_word(twins[0].nodeid, words)
            out |= {item.nodeid for item in twins if word_in(item.nodeid, words) != kept}
    for cases in _cases(item for item in items if item.nodeid not in out):
        marker = cases[0].get_closest_marker("few")
        if marker is not None:
            kept_cases = evenly(len(cases), marker.args[0])
            out |= {case.nodeid for no, case in enumerate(cases) if no not in kept_cases}
    return out


def _is_whole_run(nodeid: str) -> bool:
    return nodeid.startswith(_WHOLE_RUNS)


def _is_of_a_library(nodeid: str) -> bool:
    return nodeid.startswith(_LIBRARIES) and not nodeid.startswith(_BOTH_APIS)


def word_in(nodeid: str, words: Sequence[str]) -> str | None:
    """Return the database, or the API, that the id of a test names.

    >>> word_in("tests/crawls/test_kill.py::test_a_run[auto-postgres]", DATABASES)
    'postgres'
    >>> word_in("tests/crawls/test_kill.py::test_postgres_alone", DATABASES)
    """
    named = nodeid.partition("[")[2].removesuffix("]").split("-")
    return next((word for word in named if word in words), None)


def without_word(nodeid: str, words: Sequence[str]) -> str:
    """Return what the ids of a test have in common, whichever of the words it is run with.

    >>> without_word("tests/crawls/test_kill.py::test_a_run[auto-postgres]", DATABASES)
    'tests/crawls/test_kill.py::test_a_run[auto-any-database]'
    """
    either = "any-database" if words == DATABASES else "any-api"
    name, _, rest = nodeid.partition("[")
    named = rest.removesuffix("]").split("-")
    return f"{name}[{'-'.join(either if word in words else word for word in named)}]"


def chosen_word(nodeid: str, words: Sequence[str]) -> str:
    """Return the database, or the API, of a test in the short form: the same each time."""
    return words[crc32(without_word(nodeid, words).encode()) % len(words)]


def evenly(total: int, most: int) -> set[int]:
    """Return ``most`` places out of 0 to ``total`` - 1, the first and the last among them.

    >>> sorted(evenly(9, 3)), sorted(evenly(2, 3)), sorted(evenly(5, 1))
    ([0, 4, 8], [0, 1], [0])
    """
    if most >= total:
        return set(range(total))
    return {round(no * (total - 1) / max(1, most - 1)) for no in range(most)}


def _twins(
    items: Iterable[pytest.Item], words: Sequence[str], is_enough: Callable[[str], bool]
) -> Iterator[list[pytest.Item]]:
    """Yield the tests that differ by nothing but one of the words, where one of them is enough."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if is_enough(item.nodeid) and word_in(item.nodeid, words) is not None:
            found[without_word(item.nodeid, words)].append(item)
    yield from (twins for twins in found.values() if len(twins) > 1)


def _cases(items: Iterable[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the cases of each parametrised test."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        found[item.nodeid.partition("[")[0]].append(item)
    yield from found.values()

"""Choose the tests of the short form; ``pytest -m slow`` runs all others.

Whole runs and requests to the API behave alike over SQLite and PostgreSQL, so that each such test
is run with one of them in the short form: half of the tests with either. What the two databases
do by themselves is tested in tests/registry, always with both.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final
from zlib import crc32

import pytest

DATABASES: Final = ("sqlite", "postgres")
_WHOLE_RUNS: Final = ("tests/crawls/", "tests/server/")  #: where one database is enough
_EITHER: Final = "any-database"


def left_to_slow(items: Sequence[pytest.Item]) -> set[str]:
    """Return the ids of tests that are not part of the short form."""
    out = {item.nodeid for item in items if item.get_closest_marker("slow")}
    for twins in _twins(item for item in items if item.nodeid not in out):
        kept = chosen_database(twins[0].nodeid)
        out |= {item.nodeid for item in twins if database_in(item.nodeid) != kept}
    for cases in _cases(item for item in items if item.nodeid not in out):
        marker = cases[0].get_closest_marker("few")
        if marker is not None:
            kept_cases = evenly(len(cases), marker.args[0])
            out |= {case.nodeid for no, case in enumerate(cases) if no not in kept_cases}
    return out


def database_in(nodeid: str) -> str | None:
    """Return the database that the id of a test names.

    >>> database_in("tests/crawls/test_kill.py::test_a_run[auto-postgres]")
    'postgres'
    >>> database_in("tests/crawls/test_kill.py::test_postgres_alone")
    """
    words = nodeid.partition("[")[2].removesuffix("]").split("-")
    return next((word for word in words if word in DATABASES), None)


def without_database(nodeid: str) -> str:
    """Return what the ids of a test have in common, whichever database it is run with.

    >>> without_database("tests/crawls/test_kill.py::test_a_run[auto-postgres]")
    'tests/crawls/test_kill.py::test_a_run[auto-any-database]'
    """
    name, _, rest = nodeid.partition("[")
    words = rest.removesuffix("]").split("-")
    return f"{name}[{'-'.join(_EITHER if word in DATABASES else word for word in words)}]"


def chosen_database(nodeid: str) -> str:
    """Return the database of a test in the short form: always the same for the same test."""
    return DATABASES[crc32(without_database(nodeid).encode()) % len(DATABASES)]


def evenly(total: int, most: int) -> set[int]:
    """Return ``most`` places out of 0 to ``total`` - 1, the first and the last among them.

    >>> sorted(evenly(9, 3)), sorted(evenly(2, 3)), sorted(evenly(5, 1))
    ([0, 4, 8], [0, 1], [0])
    """
    if most >= total:
        return set(range(total))
    return {round(no * (total - 1) / max(1, most - 1)) for no in range(most)}


def _twins(items: Iterable[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the tests that differ by nothing but their database."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.nodeid.startswith(_WHOLE_RUNS) and database_in(item.nodeid) is not None:
            found[without_database(item.nodeid)].append(item)
    yield from (twins for twins in found.values() if len(twins) > 1)


def _cases(items: Iterable[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the cases of each parametrised test."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        found[item.nodeid.partition("[")[0]].append(item)
    yield from found.values()

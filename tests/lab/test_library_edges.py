"""Edge cases of libraries, each through whole crawls, by both APIs (R3-88 to R3-128).

A crawl, then a change of the library or damage on disk or in a map, a crawl that carries it out,
and a crawl that finds nothing to do. The cases are in library_cases.py; after each crawl all is
compared that it leaves: disk, maps, registry, index, result, log and downloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.library_cases import EDGES, KILLED, Edge, check_edge
from tests.crawls.library_stage import LibraryStages, library_stages
from tests.tiers import APIS, evenly

__all__ = ["library_stages"]  # a fixture

#: The cases of R3.14 that are of libraries without a vector store.
NAMES = {f"A{n}" for n in range(1, 17)} | {f"B{n}" for n in range(1, 8)}
NAMES |= {f"D{n}" for n in range(1, 5)} | {f"E{n}" for n in range(1, 7)}
_IN_POSTGRES = 8  #: cases of the default tier


def _number(edge: Edge) -> str:
    """Return the number of a case in R3.14, or its name where it has none."""
    word = edge.name.partition(" ")[0]
    return word if word in NAMES else edge.name


def cells() -> Iterator[Any]:
    """Yield each case with each API and database; one of the APIs in turn, on SQLite, is short."""
    in_postgres = [EDGES[place] for place in evenly(len(EDGES), _IN_POSTGRES)]
    for number, edge in enumerate(EDGES):
        if edge.name == KILLED:  # tests/crawls/test_library_killed.py has it
            continue
        in_short = APIS[number % 2]
        for api in APIS:
            for stack in ("sqlite", "postgres"):
                short = api == in_short and (stack == "sqlite" or edge in in_postgres)
                marks = [] if short else [pytest.mark.long]
                # Without hyphens the two databases are no twins (tests/tiers.py).
                yield pytest.param(edge, api, stack, id=f"{edge.name}: {api}, {stack}", marks=marks)


def test_each_case_of_the_requirements_is_there() -> None:
    assert {_number(edge) for edge in EDGES} >= NAMES
    assert len({edge.name for edge in EDGES}) == len(EDGES)


@pytest.mark.long(but=4)
@pytest.mark.alone
@pytest.mark.embedded
@pytest.mark.covers(
    "R3-01", "R3-03", "R3-04", "R3-14", "R3-24", "R3-25", "R3-26", "R3-27", "R3-34", "R3-37",
    "R3-38", "R3-39", "R3-41", "R3-43", "R3-69", "R3-70", "R3-71", "R3-72", "R3-73", "R3-74",
    "R3-77", "R3-78", "R3-88", "R3-89", "R3-90", "R3-91", "R3-92", "R3-93", "R3-94", "R3-95",
    "R3-96", "R3-97", "R3-98", "R3-99", "R3-100", "R3-101", "R3-102", "R3-103", "R3-104",
    "R3-105", "R3-106", "R3-107", "R3-108", "R3-109", "R3-110", "R3-117", "R3-118", "R3-119",
    "R3-120", "R3-123", "R3-124", "R3-125", "R3-126", "R3-127", "R3-128", "R3-129", "R3-131",
    "R3-132", "R3-133", "R3-134", "R3-135", "R3-136", "R3-137", "R3-139", "R3-150", "R3-153",
    "M-07", "M-12", "M-17", "M-50", "M-51", "M-52", "RD-12", "RD-13",
)  # fmt: skip
@pytest.mark.parametrize(("edge", "api", "stack"), list(cells()), indirect=["stack"])
def test_an_edge_case_is_mended_by_one_crawl(
    edge: Edge, api: str, stack: str, crawl: Crawl, library_stages: LibraryStages
) -> None:
    libraries, library = library_stages.of(api, stack).begin(crawl)
    check_edge(edge, libraries, library)

"""Which tests are left to ``pytest -m slow``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from tests.short_form import APIS, DATABASES, chosen_word, left_to_slow

RUN = "tests/crawls/test_runs.py::test_a_run"


@dataclass
class Item:
    """A test as far as its short form is concerned."""

    nodeid: str
    markers: list[pytest.Mark] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return next((mark for mark in self.markers if mark.name == name), None)


def left(items: Sequence[Item]) -> set[str]:
    return left_to_slow(cast(Any, items))


def ids(test: str, *words: str) -> list[str]:
    return [f"{test}[{word}]" for word in words]


@pytest.mark.parametrize("case", ["auto", "off", "auto-302"])
def test_a_whole_run_has_one_database(case: str):
    both = ids(RUN, f"{case}-sqlite", f"{case}-postgres")
    kept = chosen_word(both[0], DATABASES)

    assert chosen_word(both[1], DATABASES) == kept
    assert left([Item(id_) for id_ in both]) == {id_ for id_ in both if kept not in id_}
    assert left([Item(both[0])]) == left([Item(both[1])]) == set()


def test_either_database_has_its_share():
    tests = [f"tests/server/test_api.py::test_{number}[sqlite]" for number in range(200)]
    assert 80 < sum(chosen_word(id_, DATABASES) == "sqlite" for id_ in tests) < 120


@pytest.mark.parametrize(
    "test", ["tests/registry/test_rows.py::test_a_row", "tests/test_all.py::t"]
)
def test_the_registry_is_tested_with_both(test: str):
    assert left([Item(id_) for id_ in ids(test, "sqlite", "postgres")]) == set()


def test_a_library_is_read_by_one_api():
    test = "tests/crawls/test_library_lists.py::test_a_list"
    both = ids(test, "rest", "graph")
    kept = chosen_word(both[0], APIS)
    assert left([Item(id_) for id_ in both]) == {id_ for id_ in both if kept not in id_}
    others = ids(test, "rest-sqlite", "graph-postgres")  # each with a database of its own
    assert left([Item(id_) for id_ in others]) == set()


@pytest.mark.parametrize("name", ["library_edges", "library_kill", "crawl_lists"])
def test_the_apis_themselves_are_tested_with_both(name: str):
    both = ids(f"tests/crawls/test_{name}.py::test_a_list", "rest", "graph")
    assert left([Item(id_) for id_ in both]) == set()


def test_few_cases_are_spread_evenly():
    few, slow = pytest.mark.few(2).mark, pytest.mark.slow.mark
    cases = ids(RUN, "a", "b", "c", "d")
    items = [Item(id_, [few]) for id_ in cases]

    assert left(items) == {*cases[1:3]}
    items[3].markers.append(slow)
    assert left(items) == {cases[1], cases[3]}

"""Which tests script/test runs, and which it leaves to script/test --all."""

import ast
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from tests import tiers
from tests.mutants import Mutant, mutants_of_syntax
from tests.mutate_rules import is_called_for
from tests.tiers import (
    APIS,
    DATABASES,
    LONG_FORMS,
    called_for,
    changed_lines,
    changed_since,
    chosen_word,
    left_out,
    told,
)

ROOT = Path(__file__).parent.parent
pytest_plugins = ["pytester"]

RUN = "tests/crawls/test_runs.py::test_a_run"


@dataclass
class Item:
    """A test as far as its tier is concerned."""

    nodeid: str
    markers: list[pytest.Mark] = field(default_factory=list)
    of_module: list[pytest.Mark] = field(default_factory=list)
    fixturenames: Sequence[str] = ()

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        return (mark for _, mark in self.iter_markers_with_node(name))

    def iter_markers_with_node(self, name: str) -> Iterator[tuple[object, pytest.Mark]]:
        """Yield the closest first."""
        module = object.__new__(pytest.Module)
        pairs = [(self, mark) for mark in self.markers]
        return iter([*pairs, *((module, mark) for mark in self.of_module)])


def left(items: Sequence[Item], *called_for: str) -> set[str]:
    return set(left_out(cast(Any, items), called_for))


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
    tests = [f"tests/crawls/test_api.py::test_{number}[sqlite]" for number in range(200)]
    assert 80 < sum(chosen_word(id_, DATABASES) == "sqlite" for id_ in tests) < 120
    of_the_server = [id_.replace("crawls", "server") for id_ in tests]
    assert 10 < sum(chosen_word(id_, DATABASES) == "postgres" for id_ in of_the_server) < 30
    of_the_lab = [id_.replace("crawls", "lab") for id_ in tests]
    assert 0 < sum(chosen_word(id_, DATABASES) == "postgres" for id_ in of_the_lab) < 8


@pytest.mark.parametrize("test", ["tests/run/test_rows.py::test_a_row", "tests/test_all.py::t"])
def test_other_rooms_are_tested_with_both(test: str):
    assert left([Item(id_) for id_ in ids(test, "sqlite", "postgres")]) == set()


def test_each_test_of_a_contract_has_all_cases_with_sqlite_and_each_sixth_one_with_postgres():
    words = ("sqlite-a", "sqlite-b", "postgres-a", "postgres-b", "postgres-c")
    tests = [ids(f"tests/registry/test_rows.py::test_{n}", *words) for n in range(200)]
    found = [left([Item(id_) for id_ in cases]) for cases in tests]
    pairs = list(zip(tests, found, strict=True))

    assert all(out in ({*cases[2:]}, {*cases[3:]}) for cases, out in pairs)
    assert 22 < sum(out == {*cases[3:]} for cases, out in pairs) < 45
    cases = tests[0]
    assert left([Item(id_) for id_ in cases[2:]]) == set(), "it is about PostgreSQL"
    buckets = ids("tests/registry/test_rows.py::test_0", "file-a", "s3-a", "s3-b", "azure-a")
    assert left([Item(id_) for id_ in buckets]) in ({*buckets[1:]}, {buckets[2]})
    elsewhere = [id_.replace("registry", "engine") for id_ in cases]
    assert left([Item(id_) for id_ in elsewhere]) == set()


def test_a_library_is_read_by_one_api():
    test = "tests/lab/test_library_lists.py::test_a_list"
    both = ids(test, "rest", "graph")
    kept = chosen_word(both[0], APIS)
    assert left([Item(id_) for id_ in both]) == {id_ for id_ in both if kept not in id_}
    others = ids(test, "rest-sqlite", "graph-postgres")  # each with a database of its own
    assert left([Item(id_) for id_ in others]) == set()


def test_the_apis_themselves_are_tested_with_both():
    for name in ("crawls/test_crawl_lists", "sources/sharepoint/test_sharepoint_rest"):
        both = ids(f"tests/{name}.py::test_a_list", "rest", "graph")
        assert left([Item(id_) for id_ in both]) == set()


def test_cases_that_are_not_long_are_spread_evenly():
    long, but = pytest.mark.long.mark, pytest.mark.long(but=2).mark
    cases = ids(RUN, "a", "b", "c", "d")
    items = [Item(id_, [but]) for id_ in cases]

    assert left(items) == {*cases[1:3]}
    items[3].markers.insert(0, long)
    assert left(items) == {cases[1], cases[3]}


def test_one_case_of_a_test_that_runs_commands_is_not_long_where_its_marker_does_not_keep_more():
    cases = ids(RUN, "a", "b", "c")
    both = pytest.mark.long(but=2).mark

    assert left([Item(id_, fixturenames=["ask"]) for id_ in cases]) == {*cases[1:]}
    assert left([Item(id_, [both], fixturenames=["ask"]) for id_ in cases]) == {cases[1]}
    assert left([Item(id_) for id_ in cases]) == set()


def test_a_module_keeps_so_many_of_its_tests_spread_evenly():
    two = [pytest.mark.long(but=2).mark]
    tests = [f"tests/crawls/test_runs.py::test_{letter}" for letter in "abcd"]
    items = [Item(id_, of_module=two) for id_ in tests]

    assert left(items) == {*tests[1:3]}
    items[3].markers.append(pytest.mark.long.mark)
    assert left(items) == {tests[1], tests[3]}
    assert left([*items, Item("tests/crawls/test_others.py::test_a")]) == {tests[1], tests[3]}


def test_what_is_named_or_called_for_is_run():
    long = pytest.mark.long.mark
    items = [Item(RUN, [long]), Item("tests/index/test_a.py::t", [long])]

    assert left(items) == {item.nodeid for item in items}
    assert left(items, RUN) == left(items, "tests/crawls/test_") == {items[1].nodeid}


@pytest.mark.long
def test_a_run_says_what_it_left_out(pytester: pytest.Pytester):
    pytester.makeini("[pytest]\nmarkers = long")
    pytester.makeconftest(
        "from tests.tiers import *\n"
        "from tests.tiers import leave_out as pytest_collection_modifyitems"
    )
    pytester.makepyfile("""
        import pytest
        @pytest.mark.long
        def test_a(): ...
        @pytest.mark.long(but=1)
        @pytest.mark.parametrize("case", range(3))
        def test_b(case): ...
    """)

    quick = [f"-p no:{name}" for name in ("schemathesis", "hypothesispytest", "typeguard", "anyio")]
    short, whole = (pytester.runpytest_subprocess(word, *quick) for word in ("-n1", "--all"))

    short.assert_outcomes(passed=1)
    short.stdout.fnmatch_lines([
        "3 tests were left out; script/test --all runs them, too:", "*3: 1 long, 2 more cases",
    ])  # fmt: skip
    whole.assert_outcomes(passed=4)


def test_each_folder_is_named_with_what_was_left_of_it():
    assert told({"tests/a": {"long": 1_000, "more cases": 2}, "tests/b": {"long": 3}}) == [
        "1,005 tests were left out; script/test --all runs them, too:",
        "    script/test --all tests/a               1,002: 1,000 long, 2 more cases",
        "    script/test --all tests/b                   3: 3 long",
    ]


def test_a_change_calls_for_the_long_tests_of_its_room():
    assert called_for(["CHANGELOG.md", "smartcrawl/rules/traps.py"]) == []
    assert called_for(["smartcrawl/index/elasticsearch/finding.py", "tests/run/test_run.py"]) == [
        *LONG_FORMS["smartcrawl/index/elasticsearch/"], "tests/run/test_run.py",
    ]  # fmt: skip


def test_every_room_with_long_tests_and_every_test_of_it_is_there():
    tests = [path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    for room, begins in LONG_FORMS.items():
        assert list(ROOT.glob(f"{room.removesuffix('/')}*")), room
        for begin in begins:
            assert any(path.startswith(begin) for path in tests), begin


def test_what_differs_from_a_commit_is_found(tmp_path: Path):
    def git(*words: str) -> str:
        of = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        command = ["git", *of, *words]
        return subprocess.run(
            command, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    assert changed_since("HEAD", tmp_path) == [], "this is no git checkout"
    git("init", "-q")
    for name in ("same", "committed", "edited"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-qm", "Begin")
    before = git("rev-parse", "HEAD")
    assert changed_since(before, tmp_path) == []
    (tmp_path / "committed").write_text("2")
    git("commit", "-qam", "Go on")
    (tmp_path / "edited").write_text("2")
    (tmp_path / "new").write_text("2")

    assert changed_since(before, tmp_path) == ["committed", "edited", "new"]
    lines = "0\n1\n\n4\n5\n"  # one is new, one another one, one is gone
    (tmp_path / "edited").write_text(lines.replace("5", "5\n6"))
    git("commit", "-qam", "Have lines")
    (tmp_path / "edited").write_text(lines.replace("4", "3\n3b\n4").replace("0", "a"))
    assert changed_lines("HEAD", "edited", tmp_path) == {1, 4, 5, 7, 8}
    assert changed_since("0" * 40, tmp_path) == [], "git does not know it"


def test_a_changed_line_calls_for_the_mutants_that_are_in_it():
    tree = ast.parse("if a:\n    b = 1 + c\nelse:\n    b = True\n")
    found = list(mutants_of_syntax("traps", tree, {}))
    table = Mutant("traps TABLE", "traps", tables=lambda modules: None)

    def called(*lines: int, files: Sequence[str] = ()) -> list[str]:
        return [
            mutant.name.removeprefix("traps: ")
            for mutant in (*found, table)
            if is_called_for(mutant, files, {"traps": set(lines)})
        ]

    assert called(1) == ["a -> not a", "traps TABLE"]
    assert called(2) == ["1 + c -> 1 - c", "1 -> 2", "1 -> 0", "traps TABLE"]
    assert called(4) == ["True -> False", "traps TABLE"]
    assert called(3) == ["traps TABLE"]
    assert called() == called(files=["tests/rules/test_clones.py"]) == []
    assert called(files=["docs/decisions.md"]) == ["traps TABLE"]
    assert len(called(files=["tests/rules/test_traps.py"])) == len(found) + 1
    assert len(called(files=["tests/rules/test_traps_chains.py"])) == len(found) + 1


@pytest.mark.long
def test_few_examples_are_tried_without_all(pytester: pytest.Pytester):
    pytester.makeconftest(
        "from tests.tiers import choose_examples as pytest_configure, pytest_addoption"
    )
    pytester.makepyfile("""
        from collections import Counter
        from hypothesis import given, settings, strategies as st
        from tests.tiers import examples
        tried = Counter()
        def a_property(name):
            @given(st.integers())
            def test(number): tried[name] += 1
            return test
        test_usual = a_property("usual")
        test_many = settings(max_examples=examples(500))(a_property("many"))
        test_own = settings(max_examples=50)(a_property("own"))
        def test_tried(): print("tried", dict(tried))
    """)
    quick = [f"-p no:{name}" for name in ("schemathesis", "typeguard", "anyio")]

    for words, usual, many in (([], 20, 50), (["--all"], 100, 500)):
        run = pytester.runpytest_subprocess(*words, "-s", *quick)
        run.stdout.fnmatch_lines([f"*tried {{'usual': {usual}, 'many': {many}, 'own': 50}}*"])


@pytest.mark.parametrize(
    ("whole", "chosen"), [(False, [0, 2, 3, 6]), (True, [0, 1, 2, 3, 4, 5, 6])]
)
def test_a_stage_has_a_share_of_its_values_and_those_that_are_always_there(
    whole: bool, chosen: list[int], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tiers, "_whole", [whole])

    assert tiers.some(range(7), 3, always=lambda value: value == 2) == chosen


def test_no_two_modules_of_tests_have_one_name():
    """pytest imports them by their names alone, and collects nothing where two are equal."""
    found = Counter(path.name for path in (tiers.ROOT / "tests").rglob("test_*.py"))

    assert [name for name, count in found.items() if count > 1] == []

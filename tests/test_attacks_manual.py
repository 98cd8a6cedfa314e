"""docs/attacks.md names every attack once, and tests that exist."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from tests.hostile_server import KINDS

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "attacks.md"
NUMBERS = range(1, 75)
LATER = "not yet, issue"
OPEN = "**Open**: "

_CODE = re.compile(r"`([^`]+)`")
_ISSUES = re.compile(r"not yet, issues? \d+(?: and \d+)?(?:: \w|$)")
_NAMED = re.compile(r"ATT-(\d+)(?: to ATT-(\d+))?")


def table() -> dict[int, list[str]]:
    """Return the cells of each attack: what it is, what happens, and its tests."""
    found: dict[int, list[str]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ATT-"):
            number, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            assert int(number.removeprefix("ATT-")) not in found, f"{number} stands there twice"
            found[int(number.removeprefix("ATT-"))] = cells
    return found


ROWS = table()


@cache
def functions(file: Path) -> dict[str, ast.FunctionDef]:
    """Return the tests of a file by their names."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return {node.name: node for node in found if node.name.startswith("test_")}


def named(number: int) -> list[tuple[str, str]]:
    """Return file and function of each test of an attack."""
    codes = [code.split("::") for code in _CODE.findall(ROWS[number][2]) if "::" in code]
    return [(file, function) for file, function in codes]


def is_expected_to_fail(test: ast.FunctionDef) -> bool:
    return any("xfail" in ast.unparse(decorator) for decorator in test.decorator_list)


def test_every_attack_stands_in_the_table_once_and_in_order():
    assert list(ROWS) == list(NUMBERS)
    assert all(len(cells) == 3 and all(cells[:2]) for cells in ROWS.values())


def test_an_attack_has_tests_or_waits_for_an_issue():
    found = []
    for number in NUMBERS:
        _, happens, tests = ROWS[number]
        waits = happens.startswith(LATER)
        is_named = bool(named(number))
        is_whole = is_named is bool(tests) and is_named is not waits and LATER not in happens[1:]
        if not is_whole or (waits and not _ISSUES.match(happens)):
            found.append(f"ATT-{number}: {happens} | {tests}")

    assert not found, "\n".join(found)


def test_every_test_that_is_named_exists_and_is_named_once():
    places = [(number, *place) for number in NUMBERS for place in named(number)]
    missing = [
        f"ATT-{number}: {file}::{function}"
        for number, file, function in places
        if not (TESTS / file).is_file() or function not in functions(TESTS / file)
    ]

    assert not missing, "\n".join(missing)
    assert [place for place, count in Counter(places).items() if count > 1] == []


def test_every_kind_of_misbehaviour_that_is_named_exists():
    kinds = {kind.path.removeprefix("/") for kind in KINDS}
    codes = {code for cells in ROWS.values() for code in _CODE.findall(cells[2])}

    assert {code for code in codes if "::" not in code} <= kinds


def test_what_is_open_is_what_is_expected_to_fail():
    failing = {
        number
        for number in NUMBERS
        for file, function in named(number)
        if is_expected_to_fail(functions(TESTS / file)[function])
    }

    assert failing == {number for number in NUMBERS if OPEN in ROWS[number][1]}


def numbers_in(test: ast.FunctionDef) -> set[int]:
    """Return the attacks that the docstring of a test names."""
    spans = _NAMED.findall(ast.get_docstring(test) or "")
    return {number for a, b in spans for number in range(int(a), int(b or a) + 1)}


@cache
def every_test() -> dict[tuple[str, str], ast.FunctionDef]:
    """Return every test of a file that names attacks by its file and name."""
    return {
        (file.relative_to(TESTS).as_posix(), name): test
        for file in sorted(TESTS.rglob("test_*.py"))
        if "ATT-" in file.read_text(encoding="utf-8") or file.name.startswith("test_attacks_")
        for name, test in functions(file).items()
    }


def test_tests_of_attacks_stand_in_the_rows_that_their_docstrings_name():
    found = {key: numbers_in(test) for key, test in every_test().items() if numbers_in(test)}
    rows = {key: {number for number in NUMBERS if key in named(number)} for key in found}
    own = [key for key in every_test() if key[0].startswith("crawls/test_attacks_")]

    assert own
    assert [key for key in own if key not in found] == []
    assert {key: rows[key] for key in own} == {key: found[key] for key in own}
    assert [(key, found[key] - rows[key]) for key in found if found[key] - rows[key]] == []


def test_an_attack_is_named_by_one_of_its_tests():
    unnamed = [
        number
        for number in NUMBERS
        if named(number)
        and not any(number in numbers_in(functions(TESTS / f)[t]) for f, t in named(number))
    ]

    assert unnamed == []

"""What tests/gate.py rests on: marked code, the order of tests, and its tables."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import gate, mutants
from tests.gauge import marking, results, trying
from tests.gauge.record import Record, Took
from tests.gauge.trying import Progress

CODE = '''"""A module."""
from __future__ import annotations

import re
from enum import StrEnum

LIMIT = 30
WORD = re.compile("b+")
LATER = (LIMIT, "unused")


class Kind(StrEnum):
    ONE = "one"
    TWO = "two"


class Box:
    size = 3

    def over(self, count: int = 1) -> bool:
        """Whether it is too much."""
        return count + self.size > LIMIT


def named(text, kind=Kind.ONE):
    match kind:
        case Kind.TWO if text:
            return f"{text + 'a'!r} of {kind}"
    return [n for n, c in enumerate(text) if (k := c) and not k == "a"]


def later(words):
    key = lambda word: len(word) * 2
    total = 0
    while total < 5 and words:
        total += key(words[0])
    if len(words) == 1:
        return total
    elif words:
        return total - 1
    return min(sorted(words, key=key), WORD.findall("abba"))


def limits():
    return LATER
'''
CALLS = (
    "Box().over(), Box().over(28), LIMIT",
    "named('abca'), named('ab', Kind.TWO), named('', Kind.TWO)",
    "later(['a']), later(['a', 'ab']), later([])",
)


def module(text: str, found: list[int]) -> dict:
    """Return the names of a module whose marks go to a list."""
    text = text.replace("from smartcrawl._gate_hits import hit as _hit_", "")
    names = {"_hit_": lambda *numbers: found.extend(numbers), "__name__": "box"}
    exec(compile(text, "box", "exec"), names)
    return names


def marked() -> tuple[dict, list[str], list[int]]:
    """Return the names of the marked module, its mutants by number, and the list of its marks."""
    trees = {"box": ast.parse(CODE)}
    package = marking.Package(trees)
    enums = mutants.enums_of(trees)
    listed = list(mutants.mutants_of_module("box", trees["box"], enums))
    for number, mutant in enumerate(listed):
        package.mark("box", mutant.node, number)
    found: list[int] = []
    return module(package.text("box"), found), [mutant.name for mutant in listed], found


@pytest.mark.parametrize("call", CALLS)
def test_marked_code_has_the_same_values(call: str) -> None:
    names, _, _ = marked()
    assert eval(call, names) == eval(call, module(CODE, []))


def test_a_mark_is_set_where_the_code_comes_by() -> None:
    names, listed, found = marked()
    assert found == []  # the import sets none
    names["Box"]().over()
    assert {listed[number] for number in found} == {
        "box Box: 3 -> 4",
        "box Box: 3 -> 2",
        "box Box over: 1 -> 2",
        "box Box over: 1 -> 0",
        "box Box over: count + self.size -> count - self.size",
        "box Box over: count + self.size > LIMIT -> count + self.size >= LIMIT",
        "box Box over: count + self.size > LIMIT -> count + self.size <= LIMIT",
        "box: 30 -> 31",
        "box: 30 -> 29",
    }


def test_a_constant_marks_the_modules_that_take_it_and_no_others() -> None:
    using = "from smartcrawl.box import LIMIT as most\n\ndef less(n):\n    return n < most\n"
    texts = {"box": CODE, "user": using, "other": "from smartcrawl.box import Box\nN = 1\n"}
    package = marking.Package({name: ast.parse(text) for name, text in texts.items()})
    (mutant,) = (
        mutant
        for mutant in mutants.mutants_of_module("box", package.trees["box"], {})
        if mutant.name == "box: 30 -> 31"
    )
    package.mark("box", mutant.node, 5)
    assert "    _hit_(5)\n    return n < most\n" in package.text("user")
    assert package.text("other") is None


@pytest.mark.parametrize(
    ("call", "mark", "comes_by"),
    [
        ("later(['a'])", "box later: 1 -> 2 (2)", False),  # a branch that is not taken
        ("later(['a', 'b'])", "box later: 1 -> 2 (2)", True),
        ("later(['a'])", "box later: 2 -> 3", True),  # a lambda
        ("later([])", "box later: 2 -> 3", False),
        ("later([])", "box: 'b+' -> 'b+?'", True),
        ("limits()", "box: 30 -> 31", True),  # by the name that is made of it
        ("limits()", "box: 'b+' -> 'b+?'", False),
        ("named('')", "box Kind: 'one' -> 'one?'", True),
        ("named('')", "box named: 'a' -> 'a?'", False),  # in an f-string: its statement
        ("named('b', Kind.TWO)", "box named: 'a' -> 'a?'", True),
    ],
)
def test_each_place_has_its_own_mark(call: str, mark: str, comes_by: bool) -> None:
    names, listed, found = marked()
    assert mark in listed
    eval(call, names)
    assert (listed.index(mark) in found) == comes_by


def test_cheap_tests_come_first_and_each_file_has_its_turn() -> None:
    tests = {f"a.py::test_{n}": Took(1, 0.3, "passed") for n in range(3)}
    tests["b.py::test_b"] = Took(1, 0.5, "passed")
    tests["c.py::test_c"] = Took(9, 0.1, "passed", ("server",))
    tests["d.py::test_d"] = Took(1, 0.1, "failed")
    record = Record(tests, {"server": Took(5, 5)}, {7: sorted(tests)}, [])
    assert record.plan(7) == [
        "a.py::test_0", "b.py::test_b", "a.py::test_1", "a.py::test_2", "c.py::test_c"
    ]  # fmt: skip
    assert record.plan(8) == []


def test_a_test_comes_by_what_its_processes_and_shared_fixtures_come_by(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "marks").mkdir()
    (tmp_path / "marks/size").write_text("4")
    (tmp_path / "marks/12-ab.marks").write_bytes(b"\0\1\0\0b.py::test_b")
    (tmp_path / "marks/13-ab.marks").write_bytes(b"\0\0\1\0fixture site of tests")
    took = {"wall": 1.5, "cpu": 0.5}
    lines = [
        {"start": "a.py::test_a"},
        {"fixture": "fixture site of tests", "hits": [], **took},
        {"test": "a.py::test_a", "outcome": "passed", "hits": [0], "wide": [], **took},
        {"test": "b.py::test_b", "outcome": "passed", "hits": [], **took}
        | {"wide": ["fixture site of tests"]},
    ]
    (tmp_path / "log/gw0.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    Record.collected(tmp_path, [3]).write(tmp_path / "hits.json")
    record = Record.read(tmp_path / "hits.json")
    assert record.hits == {0: ["a.py::test_a"], 1: ["b.py::test_b"], 2: ["b.py::test_b"]}
    assert (record.missing, record.fixtures["fixture site of tests"].cpu) == ([3], 0.5)


def test_a_test_that_takes_ten_times_its_time_is_in_a_loop(tmp_path: Path) -> None:
    record = Record({"a": Took(1, 3.0, "passed"), "b": Took(1, 0.1, "passed", ("s",))}, {}, {}, [])
    log = tmp_path / "log"
    log.write_text('{"start": "a"}\n{"start": ')
    progress = Progress(log, record)
    progress.read(50.0)
    assert (progress.test, progress.stuck(79.0), progress.stuck(81.0)) == ("a", "", "loops")
    log.write_text('{"start": "a"}\n{"start": "b"}\n')
    progress.read(100.0)
    assert (progress.test, progress.stuck(159.0), progress.stuck(161.0)) == ("b", "", "loops")


class Scripted(trying.Trials):
    """Trials whose tests fail as a table says: t with the mutant, T without it."""

    def __init__(self, path: Path, failing: list[str]) -> None:
        took = {"q": Took(0.1, 0.1, "passed"), "s": Took(5, 1.0, "passed")}
        super().__init__(path.parent, Record(took, {}, {}, []), path.parent)
        self.path, self.failing, self.asked = path, failing, []

    def _run(self, tests: list[str], until: float) -> trying.Verdict:
        has_mutant = self.path.read_text() == "mutant"
        asked = [name if has_mutant else name.upper() for name in tests]
        self.asked.append("".join(asked))
        if asked[0] in self.failing:
            self.failing.remove(asked[0])
            return trying.Verdict(True, "failed", tests[0], 1)
        return trying.Verdict(False, "passed", "", len(tests))


@pytest.mark.parametrize(
    ("tests", "failing", "noticed", "asked"),
    [
        ("q", "", False, ["q"]),
        ("q", "q", True, ["q"]),  # a quick one is believed
        ("s", "ss", True, ["s", "s", "S"]),
        ("s", "s", False, ["s", "s"]),  # it passes once more
        ("s", "ssS", False, ["s", "s", "S"]),  # it fails without the mutant, too
        ("sq", "sq", True, ["sq", "s", "q"]),  # the others still count
    ],
)
def test_a_test_that_is_unsteady_notices_nothing(
    tmp_path: Path, tests: str, failing: str, noticed: bool, asked: list[str]
) -> None:
    module = tmp_path / "module.py"
    module.write_text("original")
    trials = Scripted(module, list(failing))
    assert trials.attempt(module, "mutant", list(tests)).noticed == noticed
    assert trials.asked == asked
    assert module.read_text() == "original"


def test_a_report_leaves_out_what_only_one_side_has(tmp_path: Path) -> None:
    verdicts = {
        "old": ["noticed", "not noticed", "noticed", "noticed"],
        "new": ["noticed", "noticed", "gone"],
    }
    names = [gate.Name("run.a", "f", f"a | {n}") for n in range(4)]
    for side, words in verdicts.items():
        for number, word in enumerate(words):
            row = (word, "", 1.0, 2, "t")
            results.add(tmp_path / side, number, names[number], row)
    old, new = results.read(tmp_path / "old"), results.read(tmp_path / "new")
    told = results.report([old, new])
    assert "| run | 2 | 1 (50.0 %) | 2 (100.0 %) |" in told
    assert "1 are gone; 3 and 3 s of CPU" in told
    assert r"| 1 | `run.a f: a \| 1` | not noticed, 2 tests | noticed, 2 tests |" in told
    assert "| run | 4 | 3 (75.0 %) |" in results.report([old])


PACKAGE = {
    "smartcrawl/__init__.py": "",
    "smartcrawl/box/__init__.py": "",
    "smartcrawl/box/sizes.py": """
def small(n):
    return n < 3


def large(n):
    return n > 9
""",
    "smartcrawl/box/runs.py": """
def runs(n):
    while n > 0:
        n = n - 1
    return n
""",
    "tests/test_box.py": """
import os
import subprocess
import sys

from smartcrawl.box.runs import runs
from smartcrawl.box.sizes import small


def test_small():
    assert small(2)


def test_runs():
    assert runs(2) == 0


def test_small_in_a_process_that_knows_nothing():
    code = "from smartcrawl.box.sizes import small; assert not small(3)"
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": os.getcwd()}, check=True)
""",
}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A small checkout, with the Python of this one."""
    copy = tmp_path / "copy"
    for name, text in PACKAGE.items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text(text)
    (copy / ".venv").symlink_to(sys.prefix)
    (copy / ".gitignore").write_text(".venv\n__pycache__\n")
    (copy / "pytest.ini").write_text("[pytest]\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Begin"]):
        subprocess.run(["git", *words], cwd=copy, check=True)
    return copy


@pytest.mark.long
def test_mutants_are_tried_by_the_tests_that_come_by_them(copy: Path, tmp_path: Path) -> None:
    names = [
        gate.Name("box.sizes", "small", "n < 3 -> n >= 3"),
        gate.Name("box.sizes", "small", "3 -> 4"),
        gate.Name("box.sizes", "small", "3 -> 2", 2),  # there is no second one
        gate.Name("box.sizes", "large", "9 -> 8"),
        gate.Name("box.runs", "runs", "n > 0 -> n >= 0"),
    ]
    gate.write_list(tmp_path / "list.tsv", names, "five")
    words = ["--list", str(tmp_path / "list.tsv"), "--copy", str(copy), "--out", str(tmp_path)]
    for command in (["hits", "--workers", "1"], ["run"]):
        done = subprocess.run(
            [sys.executable, gate.ROOT / "tests/gate.py", *command, *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    found = results.read(tmp_path / "results.tsv")
    assert [found[n].verdict for n in range(5)] == [
        "noticed", "noticed", "gone", "not executed", "noticed"
    ]  # fmt: skip
    assert found[1].test.endswith("that_knows_nothing")
    assert found[0].tests == found[4].tests == 1
    clean = subprocess.run(["git", "diff", "--quiet"], cwd=copy, check=False)
    assert clean.returncode == 0


def test_only_the_servers_of_this_project_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    found = trying.environment(Path("/copy"), "log")
    assert found["SMARTCRAWL_REQUIRE_SERVERS"] == "1"
    assert "PYTHONPATH" not in found
    assert found["PATH"].startswith("/copy/.venv/bin:")

"""script/coverage says which requirement numbers the tests show to hold, and which lack a test."""

import re
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT.parent / "shared" / "requirements.md"
MARKS = ("claim", "accept", "option", "later", "gap", "see")

_NUMBER = re.compile(r"(?:- |\| )\*\*((?:RP|R[0-4]|M|U|RD|S|E|G)-\d+)\b")
_MARK = re.compile(rf"\*\*\[({'|'.join(MARKS)})\b")


def _script():
    loader = SourceFileLoader("coverage_script", str(ROOT / "script" / "coverage"))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


script = _script()
_covered = cache(script.covered)  # each look at all tests takes seconds
script.covered = lambda root=ROOT: _covered(root)


def test_every_marker_names_a_requirement_and_the_page_has_each_number_with_its_tests():
    rows = dict(re.findall(r"^\| ((?!requirement|---)\S+) \| (.+) \|$", script.page(), re.M))

    covered = script.covered()
    assert rows.keys() >= covered.keys()
    assert {number: rows[number].split("<br>") for number in covered} == covered


@pytest.mark.parametrize(
    ("words", "is_written"), [([], True), (["--check"], False)], ids=["page", "check"]
)
def test_the_page_is_built_and_not_kept(monkeypatch, tmp_path, words, is_written):
    assert script.PAGE == ROOT / "build" / "coverage.md"
    page = tmp_path / "build" / "coverage.md"
    monkeypatch.setattr(script, "PAGE", page)
    monkeypatch.setattr("sys.argv", ["script/coverage", *words])

    assert script.main() == 0
    assert page.exists() is is_written
    assert not is_written or page.read_text(encoding="utf-8") == script.page()


def test_a_number_without_a_test_fails_both_forms(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(script, "PAGE", tmp_path / "coverage.md")
    monkeypatch.setattr(script, "untested", lambda: ["R1-99"])
    for words in ([], ["--check"]):
        monkeypatch.setattr("sys.argv", ["script/coverage", *words])
        assert script.main() == 1
        assert capsys.readouterr().err == "no test covers R1-99\n"


def test_every_number_that_needs_a_test_has_one():
    missing = script.untested()

    assert not missing, f"no test covers {', '.join(missing)}"


def test_a_declined_mechanism_has_tests_of_its_purpose():
    page = (ROOT / "docs/adr/requirements.md").read_text(encoding="utf-8")
    page = page.partition("(ADR 41)\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:[A-Z]\w*-\d+(?:, )?)+) \|", page, re.MULTILINE)
    declined = [number for row in rows for number in row.split(", ")]

    covered = script.covered()
    assert {"R0-73", "M-34"} <= set(declined)
    assert [number for number in declined if number not in covered] == []


def test_what_waits_for_an_issue_is_a_number_that_would_need_a_test():
    known = script.requirements()

    for number, issue in script.WAITING.items():
        assert number.partition("-")[0] in script.MANDATORY
        assert not script.FREE.intersection(known[number])
        assert issue


def test_what_waits_and_has_no_test_is_listed_with_what_it_waits_for(monkeypatch):
    monkeypatch.setitem(script.WAITING, "S-03", "an issue")
    rows = dict(re.findall(r"^\| (\S+) \| (.+) \|$", script.page(), re.MULTILINE))

    assert rows["S-03"] == "waits for an issue"
    covered = script.covered()
    for number, issue in script.WAITING.items():
        assert (rows[number] == f"waits for {issue}") is (number not in covered)


def test_requirements_have_distinct_numbers_and_known_marks():
    lines = (ROOT / "tests" / "requirements.tsv").read_text(encoding="utf-8").splitlines()
    known = script.requirements()

    assert len(lines) == len(known) == 601
    assert all(set(marks) <= set(MARKS) for marks in known.values())


def test_requirements_are_those_of_the_matrix():
    if not SOURCE.exists():
        pytest.skip("the requirements matrix does not lie beside the project")
    wanted, current = {}, None
    for line in SOURCE.read_text(encoding="utf-8").splitlines():
        found = _NUMBER.match(line)
        if found:
            current = wanted.setdefault(found[1], {})
        elif not line.startswith("  "):  # what is indented belongs to the number above
            current = None
        if current is not None:
            current |= dict.fromkeys(_MARK.findall(line))

    assert list(script.requirements().items()) == [(n, tuple(m)) for n, m in wanted.items()]


MODULE = """\
import pytest

covers = pytest.mark.covers


@pytest.mark.covers("R0-02")
class TestOne:
    @covers("R0-100", "M-01")
    def test_a(self): ...

    def helper(self): ...


@pytest.mark.parametrize("x", [pytest.param(1, marks=covers("R0-02"))])
async def test_b(x): ...
"""


@pytest.fixture
def project(tmp_path):
    """A project with three requirements and one module of tests, given as text."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/requirements.tsv").write_text("R0-02\t\nR0-100\tgap,see\nM-01\tsee\n")

    def write(text):
        (tmp_path / "tests/test_it.py").write_text(text)
        return tmp_path

    return write


def test_markers_of_classes_functions_and_parameters_count(project):
    root = project(MODULE)

    assert list(script.covered(root).items()) == [
        ("M-01", ["tests/test_it.py::TestOne::test_a"]),
        ("R0-02", ["tests/test_it.py::TestOne::test_a", "tests/test_it.py::test_b"]),
        ("R0-100", ["tests/test_it.py::TestOne::test_a"]),
    ]
    assert script.page(root).splitlines()[-3:] == [
        "| M-01 | tests/test_it.py::TestOne::test_a |",
        "| R0-02 | tests/test_it.py::TestOne::test_a<br>tests/test_it.py::test_b |",
        "| R0-100 | tests/test_it.py::TestOne::test_a |",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            '@pytest.mark.covers("R9-01")\ndef test_a(): ...\n',
            "tests/test_it.py:1: 'R9-01' is not in tests/requirements.tsv",
            id="unknown",
        ),
        pytest.param(
            'CASES = [pytest.param(1, marks=pytest.mark.covers("M-01"))]\n',
            "tests/test_it.py:1: a covers marker that belongs to no test",
            id="stray",
        ),
    ],
)
def test_a_marker_that_cannot_be_used_is_an_error(project, text, problem):
    with pytest.raises(script.MarkerError) as caught:
        script.page(project(text))

    assert str(caught.value) == problem


NAMES = """\
import pytest


class TestColumns:
    @pytest.mark.covers("M-01")
    @pytest.mark.parametrize("view", COLUMNS)
    def test_a(self, rows, view):
        described = rows.execute(view).get_description()
        {first}
        {second}
"""
OF_NAMES = "assert [column[0] for column in described] == COLUMNS[view].split()"


@pytest.mark.parametrize(
    "second",
    [
        "pass",
        "assert rows.execute(view).get_description()[0][0] == 'id'",
        "assert set(RECORD_KEYS) == set(rows)",
        "assert [c[0] for c in rows.cursor.description] == ['id']",
    ],
)
def test_a_test_that_only_compares_names_shows_no_number_to_hold(project, second):
    with pytest.raises(script.MarkerError) as caught:
        script.page(project(NAMES.format(first=OF_NAMES, second=second)))

    told = "tests/test_it.py:5: TestColumns::test_a only compares names, and covers a number"
    assert str(caught.value) == told


SPELLINGS = """\
import pytest

def names(rows):
    described = rows.execute("SELECT 1").get_description()
    return [column[0] for column in described]

@pytest.mark.covers("M-01")
def test_a(rows, row):
    described = rows.execute("SELECT 1").get_description()
    found = [column[0] for column in described]
    {}
"""


@pytest.mark.parametrize(
    "checks",
    [
        "assert found == ['id', 'url']",
        "assert names(rows) == ['id', 'url']",
        "assert found == ['id', 'url']; assert described; assert True",
        "assert described and found == ['id', 'url']",
        "assert len(found) == 2; pytest.raises",
        "assert not [name for name in found if name.startswith('x')]",
        "first, *_ = found; assert first == 'id'",
        "assert [row[1] for row in rows.execute('PRAGMA table_info(pages)')] == ['id', 'url']",
        "assert list(row.keys()) == ['id', 'url']",
        "assert {'id', 'url'} <= row.keys()",
        "assert hasattr(row, 'url')",
    ],
)
def test_names_are_recognized_however_they_were_got(project, checks):
    with pytest.raises(script.MarkerError, match="test_a only compares names"):
        script.page(project(SPELLINGS.format(checks)))


@pytest.mark.parametrize(
    "checks",
    [
        "assert dict(zip(found, row)) == {'id': 1}",
        "assert found == ['id']; assert row['id'] == 1",
        "assert (found[0], row.value) == ('id', 1)",
        "assert found and row.value",
        "assert [row[name] for name in found] == [1]",
        "assert {name: row[name] for name in row.keys()} == {'id': 1}",
        "assert [value for value in row] == [1]",
    ],
)
def test_values_beside_their_names_are_values(project, checks):
    root = project(SPELLINGS.format(checks))

    assert script.covered(root) == {"M-01": ["tests/test_it.py::test_a"]}


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (OF_NAMES, "assert rows.fetchall() == [(1,)]"),
        (OF_NAMES, "assert rows.value"),
        ("assert rows.value == 1", "pass"),
        ("with pytest.raises(ValueError): pass", OF_NAMES),
        ("pass", "pass"),
    ],
)
def test_a_test_that_looks_at_a_value_may_cover_a_number(project, first, second):
    root = project(NAMES.format(first=first, second=second))

    assert script.covered(root) == {"M-01": ["tests/test_it.py::TestColumns::test_a"]}


@pytest.mark.parametrize("mark", ["", "see", "accept", "gap", "gap,see"])
def test_a_number_without_a_test_is_named(project, mark):
    root = project(MODULE)
    numbers = [f"{group}-99\t{mark}\n" for group in script.MANDATORY]
    with (root / "tests/requirements.tsv").open("a") as file:
        file.writelines([*numbers, f"E-99\t{mark}\n"])

    assert script.untested(root) == ["R1-99", "R4-99", "U-99", "RD-99"]


@pytest.mark.parametrize(
    "line", ["R1-99\tlater", "R4-99\toption,see", "U-99\tclaim", *script.WAITING]
)
def test_a_number_that_needs_no_test_is_not_named(project, line):
    root = project(MODULE)
    with (root / "tests/requirements.tsv").open("a") as file:
        file.write(line if "\t" in line else f"{line}\t")

    assert script.untested(root) == []

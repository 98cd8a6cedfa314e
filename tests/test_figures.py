"""The figures of docs/style.md: files, functions and classes that one can read at once."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = sorted((ROOT / "smartcrawl").rglob("*.py"))
NAMES = [path.relative_to(ROOT).as_posix() for path in CODE]
FILE, FUNCTION = 400, 60  #: lines
PARAMETERS = 6  #: that may be given without a name
METHODS = 15  #: public ones of a class
#: Classes with more public methods; each with its reason in docs/style.md.
EXCEPTIONS: frozenset[str] = frozenset()
#: What stays at the top beside the rooms (docs/architecture.md).
DOORS = {"__init__", "__main__", "_moved", "addon", "middlewares", "pipelines", "settings"}
ROOMS = {
    "commands", "engine", "extract", "index", "model", "registry", "reports", "rules", "run",
    "server", "sources", "spiders", "terminal",
}  # fmt: skip

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[Function]:
    """Yield the functions and methods of a module."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


@pytest.mark.parametrize("path", CODE, ids=NAMES)
def test_a_module_is_short(path: Path):
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)

    assert source.count("\n") <= FILE
    for function in functions(tree):
        assert (function.end_lineno or 0) - function.lineno < FUNCTION, function.name
        given = [*function.args.posonlyargs, *function.args.args]
        named = [argument.arg for argument in given if argument.arg not in ("self", "cls")]
        assert len(named) <= PARAMETERS, function.name


@pytest.mark.parametrize("path", CODE, ids=NAMES)
def test_a_class_has_few_public_methods(path: Path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name not in EXCEPTIONS:
            public = [
                member.name
                for member in node.body
                if isinstance(member, Function) and not member.name.startswith("_")
            ]
            assert len(public) <= METHODS, node.name


def test_every_exception_has_its_reason():
    page = (ROOT / "docs" / "style.md").read_text(encoding="utf-8")

    assert len(EXCEPTIONS) <= 2
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == EXCEPTIONS


def test_the_top_has_doors_and_rooms_only():
    top = ROOT / "smartcrawl"

    assert {path.stem for path in top.glob("*.py")} == DOORS
    assert {path.parent.name for path in top.glob("*/__init__.py")} == ROOMS

"""The figures of docs/style.md: functions that one can read at once, and the rooms of the top."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = sorted((ROOT / "smartcrawl").rglob("*.py"))
NAMES = [path.relative_to(ROOT).as_posix() for path in CODE]
FUNCTION = 60  #: lines
PARAMETERS = 6  #: that may be given without a name
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
def test_functions_are_short(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))

    for function in functions(tree):
        assert (function.end_lineno or 0) - function.lineno < FUNCTION, function.name
        given = [*function.args.posonlyargs, *function.args.args]
        named = [argument.arg for argument in given if argument.arg not in ("self", "cls")]
        assert len(named) <= PARAMETERS, function.name


def test_the_top_has_doors_and_rooms_only():
    top = ROOT / "smartcrawl"

    assert {path.stem for path in top.glob("*.py")} == DOORS
    assert {path.parent.name for path in top.glob("*/__init__.py")} == ROOMS

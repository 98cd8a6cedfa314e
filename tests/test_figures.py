"""The figures of docs/style.md: functions that one can read at once, and the rooms of the top."""

import ast
from collections.abc import Iterator

from tests.modules import CODE, ROOT, name, parsed

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


def excesses(function: Function) -> Iterator[str]:
    """Yield what a function has too much of."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    if lines > FUNCTION:
        yield f"{lines} lines"
    given = [*function.args.posonlyargs, *function.args.args]
    named = [argument.arg for argument in given if argument.arg not in ("self", "cls")]
    if len(named) > PARAMETERS:
        yield f"{len(named)} parameters"


def test_functions_are_short():
    found = [
        f"{name(path)}:{function.lineno}: {function.name} has {excess}"
        for path in CODE
        for function in functions(parsed(path))
        for excess in excesses(function)
    ]

    assert not found, "\n".join(found)


def test_a_function_that_is_too_long_or_takes_too_much_is_found():
    long = "def f(self, a, b, c, d, e, /, g):\n" + "    pass\n" * FUNCTION
    most = "def f(self, a, b, c, d, e, /, g, *, h):\n" + "    pass\n" * (FUNCTION - 1)
    many = "def f(a, b, c, d, e, /, g, h): ...\n"

    found = [list(excesses(next(functions(ast.parse(text))))) for text in (long, most, many)]
    assert found == [["61 lines"], [], ["7 parameters"]]


def test_the_top_has_doors_and_rooms_only():
    top = ROOT / "smartcrawl"

    assert {path.stem for path in top.glob("*.py")} == DOORS
    assert {path.parent.name for path in top.glob("*/__init__.py")} == ROOMS

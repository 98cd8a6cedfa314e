"""The modules of smartcrawl as tests of the project read them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CODE = sorted((ROOT / "smartcrawl").rglob("*.py"))

_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def name(path: Path) -> str:
    """Return the path of a file within the project."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(text: str) -> ast.Module:
    """Return the tree of a module, which no test may change: all of them take a second to read."""
    return ast.parse(text)


def parsed(path: Path) -> ast.Module:
    """Return the tree of the module in a file."""
    return tree(path.read_text(encoding="utf-8"))


def strings(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string that is no docstring."""
    documented = {
        id(node.body[0].value)
        for node in ast.walk(module)
        if isinstance(node, _DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(module):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documented:
            yield node.lineno, node.value


@cache
def strings_of_all() -> tuple[tuple[Path, int, str], ...]:
    """Return file, line and text of each string of smartcrawl that is no docstring."""
    return tuple((path, line, text) for path in CODE for line, text in strings(parsed(path)))

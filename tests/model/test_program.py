"""Messages name the program that the user called."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.commands.listed import COMMANDS
from smartcrawl.model.program import (
    program_argument,
    program_argument_label,
    program_as_typed,
    program_crawl_line,
    program_name,
)
from smartcrawl.reports.remedies import reported_reason
from smartcrawl.run.opening import ARGUMENTS

CODE = sorted((Path(__file__).parents[2] / "smartcrawl").rglob("*.py"))
#: A command line of scrapy that works as well with smartcrawl.
LINE = re.compile(rf"\bscrapy (?:{'|'.join(COMMANDS)})\b")
#: An argument of a crawl as scrapy alone takes it.
ARGUMENT = re.compile(rf"-a (?:{'|'.join(sorted({*ARGUMENTS, 'root'}))})\b")
#: Of the command line of scrapy itself, and of the words that stand for it.
OF_SCRAPY = ("program.py", "crawl.py")


@pytest.mark.parametrize(
    ("called", "name", "typed"),
    [
        ("scrapy", "scrapy", "scrapy"),
        (".venv/bin/scrapy", "scrapy", ".venv/bin/scrapy"),
        ("/opt/python/site-packages/scrapy/__main__.py", "scrapy", "scrapy"),
        ("smartcrawl", "smartcrawl", "smartcrawl"),
        (".venv/bin/smartcrawl", "smartcrawl", ".venv/bin/smartcrawl"),
        ("/opt/bin/smartcrawl", "smartcrawl", "smartcrawl"),
        ("/opt/python/smartcrawl/__main__.py", "smartcrawl", "python -m smartcrawl"),
        ("/opt/smartcrawl/other.py", "scrapy", "scrapy"),
    ],
)
def test_the_called_program_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, called: str, name: str, typed: str
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [called])

    assert (program_name(), program_as_typed()) == (name, typed)


def test_a_crawl_is_named_as_each_program_takes_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["smartcrawl"])
    assert program_crawl_line("https://a.example/") == "smartcrawl crawl https://a.example/"

    monkeypatch.setattr(sys, "argv", ["scrapy"])
    assert program_crawl_line("https://a.example/") == "scrapy crawl site -a url=https://a.example/"


def test_an_argument_is_named_as_each_program_takes_it(monkeypatch: pytest.MonkeyPatch):
    given = {"url": "URL", "root": "DIR", "source": "docs", "max_pages": "5", "resume": "1"}

    monkeypatch.setattr(sys, "argv", ["smartcrawl"])
    assert [program_argument(*one) for one in given.items()] == [
        "URL", "DIR", "--source docs", "--max-pages 5", "--resume",
    ]  # fmt: skip
    assert program_argument_label("url") == "the address"
    assert program_argument_label("sitemap") == "--sitemap"
    assert reported_reason("interrupted", 2) == "interrupted (go on with --resume)"

    monkeypatch.setattr(sys, "argv", ["scrapy"])
    assert [program_argument(*one) for one in given.items()] == [
        "-a url=URL", "-a root=DIR", "-a source=docs", "-a max_pages=5", "-a resume=1",
    ]  # fmt: skip
    assert program_argument_label("url") == "-a url"
    assert reported_reason("interrupted", 2) == "interrupted (go on with -a resume=1)"


def texts(tree: ast.Module) -> Iterator[ast.Constant]:
    """Yield the string constants of a module, without its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
        ):
            yield node


@pytest.mark.parametrize("path", CODE, ids=[path.stem for path in CODE])
def test_no_message_names_a_command_of_scrapy_by_itself(path: Path):
    """It would not work where smartcrawl was called: write program_name() in its place."""
    found = [
        f"{path.name}:{node.lineno}: {node.value}"
        for node in texts(ast.parse(path.read_text(encoding="utf-8")))
        if LINE.search(node.value) and path.name != "program.py"
    ]

    assert not found


@pytest.mark.parametrize("path", CODE, ids=[path.stem for path in CODE])
def test_no_message_names_an_argument_as_scrapy_takes_it(path: Path):
    """smartcrawl has options for them: write program_argument() in its place."""
    found = [
        f"{path.name}:{node.lineno}: {node.value}"
        for node in texts(ast.parse(path.read_text(encoding="utf-8")))
        if ARGUMENT.search(node.value) and path.name not in OF_SCRAPY
    ]

    assert not found

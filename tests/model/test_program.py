"""Messages name the program that the user called."""

import re
import sys
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
from tests.modules import name, strings_of_all

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
        ("/opt/bin/smartcrawl", "smartcrawl", "/opt/bin/smartcrawl"),
        ("/opt/my bin/scrapy", "scrapy", "'/opt/my bin/scrapy'"),
        ("../bin/smartcrawl", "smartcrawl", "../bin/smartcrawl"),
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


def test_a_program_on_the_path_is_named_without_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    program = tmp_path / "bin" / "smartcrawl"
    program.parent.mkdir()
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"/none:{program.parent}")
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert program_as_typed() == str(program).removeprefix("/")  # below this folder
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    assert program_as_typed() == "smartcrawl"

    monkeypatch.setattr(sys, "argv", [str(tmp_path / "other" / "smartcrawl")])
    assert program_as_typed() == str(tmp_path / "other" / "smartcrawl")


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
    assert reported_reason("interrupted", 2) == "interrupted (continue with --resume)"

    monkeypatch.setattr(sys, "argv", ["scrapy"])
    assert [program_argument(*one) for one in given.items()] == [
        "-a url=URL", "-a root=DIR", "-a source=docs", "-a max_pages=5", "-a resume=1",
    ]  # fmt: skip
    assert program_argument_label("url") == "-a url"
    assert reported_reason("interrupted", 2) == "interrupted (continue with -a resume=1)"


def named(pattern: re.Pattern[str], *unless: str) -> str:
    """Return the messages that contain a pattern, but for modules of these names."""
    return "\n".join(
        f"{name(path)}:{line}: {text}"
        for path, line, text in strings_of_all()
        if pattern.search(text) and path.name not in unless
    )


def test_no_message_names_a_command_of_scrapy_by_itself():
    """It would not work where smartcrawl was called: write program_name() in its place."""
    found = named(LINE, "program.py")

    assert not found, found
    assert LINE.search("run scrapy crawl site"), "the pattern finds nothing"


def test_no_message_names_an_argument_as_scrapy_takes_it():
    """smartcrawl has options for them: write program_argument() in its place."""
    found = named(ARGUMENT, *OF_SCRAPY)

    assert not found, found
    assert "program.py" in named(ARGUMENT)

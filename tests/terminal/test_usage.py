"""Mistyped options and settings, hosts that do not resolve, and standard output that fails."""

import asyncio
import io
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import IO

import pytest
from scrapy.settings import Settings

from smartcrawl import settings as ours
from smartcrawl.commands.running import command_named, front_door_parser
from smartcrawl.engine.download import network
from smartcrawl.engine.download.network import resolve_crawled_hosts
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.options import Options
from smartcrawl.sources.base import Source
from smartcrawl.sources.site import SiteSource
from smartcrawl.terminal.output import OutputError, printed
from smartcrawl.terminal.usage import check_terminal_usage, terminal_output_file_refusal


@pytest.fixture
def parser() -> ArgumentParser:
    parser = ArgumentParser()
    parser.add_argument("--limit")
    parser.add_argument("-s", action="append", default=[])
    return parser


def settings(folder: Path, **values: object) -> Settings:
    made = Settings()
    made.setmodule(ours, priority="project")
    made.setdict({"DATA_DIR": str(folder / "data"), **values}, priority="cmdline")
    return made


def usage(parser: ArgumentParser, args: list[str], *given: str, words: bool = True) -> list[str]:
    opts = Namespace(set=list(given), pidfile=None)
    check_terminal_usage(parser, Settings(), args, opts, words=words)
    return args


def of_scrapy(name: str) -> ArgumentParser:
    """The parser of a command as Scrapy's command line makes it."""
    command = import_module(f"smartcrawl.commands.{name}").Command()
    command.settings = Settings()
    parser = ArgumentParser(prog="scrapy", usage=f"scrapy {name} {command.syntax()}")
    command.add_options(parser)
    return parser


def test_the_help_of_a_format_names_its_default():
    for name in ("plan", "status", "registry", "runs", "export", "search", "why"):
        (action,) = (one for one in of_scrapy(name)._actions if "--format" in one.option_strings)
        assert str(action.help).startswith(f"default: {action.default}"), name


def of_smartcrawl(name: str) -> ArgumentParser:
    return front_door_parser(name, command_named(name))


@pytest.mark.parametrize(
    ("parser_of", "name"),
    [(of_smartcrawl, "search"), (of_smartcrawl, "crawl"), (of_scrapy, "crawl")],
)
def test_an_error_of_usage_has_lines_of_the_terminal(
    parser_of: Callable[[str], ArgumentParser],
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("COLUMNS", "80")
    parser = parser_of(name)
    option = "--progress" if name == "crawl" else "--mode"

    with pytest.raises(SystemExit) as end:
        parser.parse_args([option, "a value that is none of those that the option takes"])

    err = capsys.readouterr().err
    assert end.value.code == 2
    assert f"{parser.prog}: error: argument {option}: invalid choice: 'a value" in err
    assert max(map(len, err.splitlines())) <= 80
    assert err.startswith("usage: ")


@pytest.mark.parametrize("word", ["--limt", "--limt=3", "-limit", "-x"])
def test_an_option_that_is_not_known_is_refused(
    parser: ArgumentParser, word: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as end:
        usage(parser, ["lamp", word])

    assert end.value.code == 2
    assert word.partition("=")[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("args", "remedy"),
    [
        (["dough", "-loaf"], "lists them. A word that begins with a dash goes after --, or into"
         " quotes: 'dough -loaf'\n"),
        (["-loaf"], "lists them. A word that begins with a dash goes after --\n"),
        (["https://a.example/", "-x"], "goes after --\n"),
        (["7", "-x"], "goes after --\n"),
        (["dough", "--limt"], "did you mean --limit? A word that begins with a dash"),
    ],
)  # fmt: skip
def test_a_word_with_a_dash_that_is_no_option_has_a_remedy(
    parser: ArgumentParser, args: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        usage(parser, args)

    assert remedy in capsys.readouterr().err


@pytest.mark.parametrize("word", ["-", "-3", "lamp-shade", "--"])
def test_words_that_are_no_options_are_kept(parser: ArgumentParser, word: str):
    assert usage(parser, [word]) == ([] if word == "--" else [word])


def test_words_after_two_dashes_are_words(parser: ArgumentParser):
    assert usage(parser, ["a", "--", "--limt", "--"]) == ["a", "--limt", "--"]


def test_only_a_setting_that_resembles_a_known_one_is_refused(
    parser: ArgumentParser, capsys: pytest.CaptureFixture[str]
):
    usage(parser, [], "DOWNLOAD_DELAY=1", "MOOD=bright")
    assert "MOOD" in capsys.readouterr().err

    with pytest.raises(SystemExit):
        usage(parser, [], "download_dely=1")
    assert "did you mean DOWNLOAD_DELAY?" in capsys.readouterr().err


def test_a_file_is_writable_where_its_folder_is_there(tmp_path: Path):
    (tmp_path / "file").write_text("")

    assert terminal_output_file_refusal(tmp_path / "file") is None
    assert terminal_output_file_refusal(tmp_path / "new") is None
    assert "folder" in (terminal_output_file_refusal(tmp_path) or "")
    assert "make it" in (terminal_output_file_refusal(tmp_path / "none" / "new") or "")


def check(source: Source, folder: Path, **values: object) -> None:
    given = settings(folder, **values)
    asyncio.run(resolve_crawled_hosts(source, Options.of(given), given))


def test_a_source_needs_one_host_that_resolves(tmp_path: Path):
    lost = SiteSource(name="docs", seeds=("http://a.invalid/", "http://b.invalid/"))
    found = SiteSource(name="docs", seeds=("http://a.invalid/", "http://127.0.0.1/"))

    check(found, tmp_path)
    with pytest.raises(SourceError, match=r"none of a\.invalid, b\.invalid can be resolved"):
        check(lost, tmp_path)
    assert not (tmp_path / "data").exists()


def test_names_are_left_to_a_proxy_and_to_a_resolver_of_the_users_own(tmp_path: Path):
    lost = SiteSource(name="docs", seeds=("http://a.invalid/",))

    check(lost, tmp_path, HTTPPROXY_ENABLED="1")
    check(lost, tmp_path, TWISTED_DNS_RESOLVER="scrapy.resolver.CachingThreadedResolver")


def test_a_slow_name_server_does_not_keep_a_run_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async def never(hosts: object) -> str | None:
        await asyncio.sleep(60)
        return "never"

    monkeypatch.setattr(network, "_SECONDS", 0.01)
    monkeypatch.setattr(network, "_unresolved", never)

    check(SiteSource(name="docs", seeds=("http://a.invalid/",)), tmp_path)


class Full(io.StringIO):
    """Standard output on a full disk, as far as a command sees it."""

    def __init__(self, number: int, file: IO[str]) -> None:
        super().__init__()
        self._number = number
        self._file = file

    def flush(self) -> None:
        raise OSError(self._number, "no")

    def fileno(self) -> int:
        return self._file.fileno()


@pytest.mark.parametrize("number", [28, 122])
def test_a_full_output_is_a_message(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", Full(number, file))
        with pytest.raises(OutputError, match="standard output"), printed():
            print("lamp")


def test_other_errors_are_not_taken_for_a_full_output():
    with pytest.raises(FileNotFoundError), printed():
        Path("/none/none").read_text()
    with pytest.raises(SystemExit), printed():
        sys.exit(3)

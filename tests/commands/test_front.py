"""The program smartcrawl: greeting, list of commands, options, and messages about wrong ones."""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import IO

import pytest
from scrapy.cmdline import ScrapyArgumentParser, _get_commands_from_module, execute
from scrapy.commands import ScrapyHelpFormatter
from scrapy.settings import Settings

from smartcrawl import __version__, commands
from smartcrawl.commands.front import main_command
from smartcrawl.commands.handed_on import hand_commands_on
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.commands.running import PlainSettings
from smartcrawl.commands.search import Command as Search
from smartcrawl.model.options import Options
from smartcrawl.model.setting_values import CMDLINE
from smartcrawl.model.settings_table import setting_value
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.terminal.usage import check_terminal_usage

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Be called as smartcrawl in an empty folder, by a user without state."""
    hand_commands_on()  # as where Scrapy asks for our commands
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["smartcrawl"])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    for name in ("DATA_DIR", "SMARTCRAWL_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_alone_it_greets_with_three_commands(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main_command([]) == 0

    out = capsys.readouterr().out
    tried = [line.split()[1] for line in out.splitlines() if line.startswith("  smartcrawl ")]
    assert tried == ["crawl", "search", "status"]
    assert str(tmp_path / "home" / "smartcrawl") in out


def test_the_greeting_names_the_state_of_this_folder(capsys: pytest.CaptureFixture[str]):
    Path(".smartcrawl").mkdir()

    main_command([])

    assert f"The state is in {Path.cwd() / '.smartcrawl'}" in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--help"]])
@pytest.mark.parametrize(
    "before", [["--data-dir", "x"], ["--data-dir=x"], ["-sDATA_DIR=x"], ["--set", "DATA_DIR=x"]]
)
def test_greeting_and_help_name_the_given_folder(
    capsys: pytest.CaptureFixture[str], before: list[str], words: list[str]
):
    assert main_command([*before, *words]) == 0

    assert f" {Path.cwd() / 'x'}\n" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["-s"], ["--data-dir"], ["-s", "--help"], ["--set", "-V"]])
def test_an_option_without_its_value_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str]
):
    with pytest.raises(SystemExit) as ended:
        main_command(words)

    assert ended.value.code == 2
    assert "expected one argument" in capsys.readouterr().err


def test_a_folder_that_cannot_be_is_one_sentence(capsys: pytest.CaptureFixture[str]):
    for words in (["--data-dir", "~no-such-user/x"], ["status", "--data-dir", "~no-such-user/x"]):
        assert main_command(words) == 1
        assert capsys.readouterr().err == (
            "smartcrawl: the path '~no-such-user/x' begins with a home folder that this system does"
            " not have: write the whole path\n"
        )


PRINTING = [[], ["--help"], ["--version"], ["completion", "bash"], ["status", "--help"]]


@pytest.mark.long(but=1)
@pytest.mark.parametrize("words", PRINTING)
def test_a_full_disk_is_one_sentence(words: list[str]):
    with Path("/dev/full").open("w") as full:
        status, err = called(words, full)

    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("smartcrawl: cannot write to standard output (No space left on device)")


@pytest.mark.long(but=1)
@pytest.mark.parametrize("words", PRINTING)
def test_a_reader_that_stops_reading_is_no_error(words: list[str]):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        assert called(words, gone) == (0, "")


def test_a_folder_that_the_encoding_lacks_is_printed_all_the_same(tmp_path: Path):
    with Path("out").open("w") as out:
        assert called(["--data-dir", "é"], out, PYTHONIOENCODING="ascii") == (0, "")
    assert Path("out").read_text().endswith(f"The state is in {tmp_path / '?'}\n")


def called(words: list[str], out: IO[str], **environment: str) -> tuple[int, str]:
    """Call the program, and return its exit status and standard error."""
    found = subprocess.run(
        [sys.executable, "-m", "smartcrawl", *words],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""} | environment,
    )
    return found.returncode, found.stderr


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help_lists_every_command_on_one_line(capsys: pytest.CaptureFixture[str], words: list[str]):
    assert main_command(words) == 0

    lines = capsys.readouterr().out.splitlines()
    assert all(f"  {name:<10}  {text}" in lines for name, text in COMMANDS.items())
    assert max(len(line) for line in lines if not line.strip().startswith("/")) <= 90


#: Commands of Scrapy, which smartcrawl does not have.
SCRAPYS = ("fetch", "list", "parse", "settings", "shell", "view")


def test_the_list_has_every_command():
    names = {
        module.name
        for module in iter_modules(commands.__path__)
        if hasattr(import_module(f"smartcrawl.commands.{module.name}"), "Command")
    }

    assert names - set(SCRAPYS) | {"completion"} == set(COMMANDS)


def test_scrapy_lists_every_command_with_the_same_description():
    found = _get_commands_from_module("smartcrawl.commands", inproject=True)

    assert {name: command.short_desc() for name, command in found.items()} == {
        **{name: text for name, text in COMMANDS.items() if name != "completion"},
        "crawl": found["crawl"].short_desc(),  # of a spider
        **{name: found[name].short_desc() for name in SCRAPYS},
    }
    assert {type(found[name]).__name__ for name in COMMANDS if name in found} == {
        "Command", "HandedOn",
    }  # fmt: skip
    assert found["search"].syntax() == Search().syntax()


def project(**given: object) -> Settings:
    settings = Settings({"DATA_DIR": "state", **given})
    settings.setmodule("smartcrawl.settings", priority="default")
    return settings


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--format", "json"],
        ["status", "--format=json", "--nolog", "-L", "ERROR"],
        ["status", "-s", "DATA_DIR=state", "--format", "json", "-s", "LOST_THRESHOLD=4"],
    ],
)
def test_scrapy_hands_words_and_settings_on(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    registry_database(Path("state/registry.db")).open().close(True)
    monkeypatch.setattr(sys, "argv", ["scrapy"])
    monkeypatch.setattr("scrapy.cmdline.inside_project", lambda: True)

    with pytest.raises(SystemExit) as ended:
        execute(["scrapy", *words], project())

    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out)["sources"] == []


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["search", "--help"], 0, "usage: scrapy search [options] QUERY"),
        (["search", "--limt", "3"], 2, "scrapy search: error: there is no option --limt, did you"),
        (["search", "-s", "LOST_TRESHOLD=3", "x"], 2, "did you mean LOST_THRESHOLD?"),
        (["search", "x"], 1, "search: there is no registry at"),
        (["search", "x", "--pidfile", "no/such"], 2, "--pidfile is 'no/such', which cannot be"),
        (["undo", "--", "-1x"], 1, "undo: there is no registry at"),
    ],
)
def test_a_command_ends_alike_behind_both_doors(
    words: list[str],
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(sys, "argv", ["scrapy"])
    monkeypatch.setattr("scrapy.cmdline.inside_project", lambda: True)

    with pytest.raises(SystemExit) as ended:
        execute(["scrapy", *words], project())

    printed = capsys.readouterr()
    assert ended.value.code == status
    assert said in printed.out + printed.err
    if "--pidfile" in words:  # an option of Scrapy alone
        return
    monkeypatch.setattr(sys, "argv", ["smartcrawl"])
    with pytest.raises(SystemExit) as ended:
        sys.exit(main_command([*words, "--data-dir", "state"] if "--" not in words else words))
    assert ended.value.code == status


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]):
    assert main_command(["--version"]) == 0
    assert capsys.readouterr().out == f"smartcrawl {__version__}\n"


def test_a_mistyped_command_is_corrected(capsys: pytest.CaptureFixture[str]):
    assert main_command(["serach", "x"]) == 2
    assert capsys.readouterr().err == (
        "smartcrawl: there is no command 'serach'; did you mean search?\n"
    )


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "completion"])
def test_help_of_a_command_names_it_as_it_is_called(capsys: pytest.CaptureFixture[str], name: str):
    with pytest.raises(SystemExit) as ended:
        main_command([name, "--help"])

    out = capsys.readouterr().out
    assert ended.value.code == 0
    assert out.startswith(f"usage: smartcrawl {name}")
    assert "--data-dir DIR" in out
    assert "scrapy " not in out


def too_long(text: str, columns: int = 40) -> list[str]:
    """The lines that have more columns, and could have fewer: one long word cannot."""
    lines = text.splitlines()
    return [line for line in lines if len(line) > columns and len(line.split()) > 1]


@pytest.mark.parametrize("words", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
):
    monkeypatch.setenv("COLUMNS", "40")

    with suppress(SystemExit):
        main_command(words)

    out = capsys.readouterr().out
    assert out.startswith("usage: smartcrawl")
    assert too_long(out) == []


@pytest.mark.parametrize("name", ["crawl", "due", "library", *SCRAPYS])
def test_scrapys_help_of_our_commands_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.setenv("COLUMNS", "40")
    command = import_module(f"smartcrawl.commands.{name}").Command()
    command.settings = Settings()
    parser = ScrapyArgumentParser(
        formatter_class=ScrapyHelpFormatter, usage=f"scrapy {name} {command.syntax()}",
        conflict_handler="resolve", description=command.long_desc(),
    )  # fmt: skip
    command.add_options(parser)

    assert too_long(parser.format_help()) == []


def test_the_greeting_breaks_neither_commands_nor_paths(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", "40")
    folder = Path.cwd() / "a folder of four words"

    assert main_command(["--data-dir", str(folder)]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert "  smartcrawl crawl https://docs.example.com/" in lines
    assert lines[-1].endswith(str(folder))
    assert [line for line in too_long("\n".join(lines[:-1])) if " https://" not in line] == []


def test_a_mistyped_option_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main_command(["search", "--limt", "3", "foo"])

    assert ended.value.code == 2
    assert "there is no option --limt, did you mean --limit?" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["crawl", "--frce"], ["due", "--sorce", "x"]])
def test_a_crawl_refuses_a_mistyped_option_too(
    capsys: pytest.CaptureFixture[str], words: list[str]
):
    with pytest.raises(SystemExit) as ended:
        main_command(words)

    assert ended.value.code == 2
    assert f"there is no option {words[1]}, did you mean" in capsys.readouterr().err


def test_an_unknown_setting_is_reported_once(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main_command(["crawl", "https://a.example/", "-s", "FOO_BARX=1", "-s", "LOST_THRESHOLD=x"])

    err = capsys.readouterr().err
    assert ended.value.code == 1
    assert "LOST_THRESHOLD" in err, "the crawl was parsed to its end"
    assert err.count("FOO_BARX") == 1


def test_words_after_two_dashes_and_numbers_are_no_options():
    parser = ArgumentParser()
    words = ["a", "-7", "-", "--", "-b", "--", "c"]

    check_terminal_usage(parser, (), words, Namespace(set=[]))

    assert words == ["a", "-7", "-", "-b", "--", "c"]


def test_a_missing_registry_is_reported_with_the_words_of_smartcrawl(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert main_command(["status"]) == 1

    err = capsys.readouterr().err
    assert str(tmp_path / "home" / "smartcrawl" / "registry.db") in err
    assert "such as smartcrawl crawl https://…" in err


@pytest.mark.parametrize(
    "words",
    [
        ["status", "--data-dir", "state"],
        ["--data-dir", "state", "status"],
        ["--data-dir=state", "status"],
        ["-s", "DATA_DIR=state", "status"],
        ["-sDATA_DIR=state", "status"],
        ["status", "--set", "DATA_DIR=elsewhere", "-s", "DATA_DIR=state"],
        ["status", "-s", "DATA_DIR=elsewhere", "--data-dir", "state"],
    ],
)
def test_the_folder_of_state_can_be_named(capsys: pytest.CaptureFixture[str], words: list[str]):
    registry_database(Path("state/registry.db")).open().close(True)

    assert main_command(words) == 0
    assert "nothing was crawled yet" in capsys.readouterr().out


def test_a_search_without_words_proposes_a_command_of_smartcrawl(
    capsys: pytest.CaptureFixture[str],
):
    registry_database(Path("state/registry.db")).open().close(True)

    assert main_command(["search", "--data-dir", "state", "!?"]) == 0
    assert "such as: smartcrawl search 'two words'" in capsys.readouterr().err


def test_a_setting_without_a_value_is_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main_command(["status", "-s", "DATA_DIR"])

    assert ended.value.code == 2
    assert "-s is 'DATA_DIR': expected NAME=VALUE" in capsys.readouterr().err


def test_a_word_that_looks_like_a_setting_goes_after_two_dashes(
    capsys: pytest.CaptureFixture[str],
):
    with pytest.raises(SystemExit) as ended:
        main_command(["search", "-starter"])

    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert (
        "-s is 'tarter': expected NAME=VALUE. A word that begins with a dash goes after --" in err
    )
    assert "note:" not in err


def test_settings_without_scrapy_are_those_of_the_project():
    settings = PlainSettings()
    settings.set("DEPTH_LIMIT", "3", "cmdline")

    assert settings["DEPTH_LIMIT"] == "3"
    assert settings["NO_SUCH_SETTING"] is None
    assert "NO_SUCH_SETTING" not in settings
    assert settings.getpriority("DEPTH_LIMIT") == CMDLINE
    assert settings.getpriority("ROBOTSTXT_OBEY") == 20
    assert settings.getpriority("NO_SUCH_SETTING") is None
    assert setting_value(settings, "ROBOTSTXT_OBEY") is True
    assert len(settings) == len(list(settings))
    settings.set("DATA_DIR", str(Path.cwd()), "project")
    assert Options.of(settings).depth_limit == 3

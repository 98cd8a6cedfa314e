"""Completion of ``smartcrawl``: asked of a real bash, and of zsh and fish where they are there."""

import re
import shlex
import shutil
import subprocess
from argparse import SUPPRESS
from pathlib import Path

import pytest

from smartcrawl.commands.completion import completion_command
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.commands.running import command_named, front_door_parser

SHELLS = ("bash", "zsh", "fish")


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """The script for each shell."""
    found = {}
    for shell in SHELLS:
        with pytest.MonkeyPatch.context() as patch:
            printed: list[str] = []
            patch.setattr("builtins.print", printed.append)
            assert completion_command([shell]) == 0
        found[shell] = "".join(printed)
    return found


@pytest.fixture(scope="module")
def complete(scripts: dict[str, str], tmp_path_factory: pytest.TempPathFactory):
    """Return what bash offers for a line, whose last word is being typed."""
    folder = tmp_path_factory.mktemp("bash")
    (folder / "state").mkdir()
    (folder / "a file.log").touch()
    (folder / "script").write_text(scripts["bash"], encoding="utf-8")

    def complete(line: str) -> list[str]:
        words = [shlex.quote(word) for word in line.split(" ")]
        asked = (
            f". ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1};"
            " _shtab_smartcrawl; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        result = subprocess.run(
            ["bash", "--norc", "-c", asked], cwd=folder, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.splitlines() if result.stdout.strip() else []

    return complete


def test_bash_completes_commands(complete):
    assert complete("smartcrawl sea") == ["search"]
    assert set(COMMANDS) <= set(complete("smartcrawl "))


def test_bash_completes_the_options_of_the_command(complete):
    assert complete("smartcrawl search --li") == ["--limit"]
    assert complete("smartcrawl search --max") == []
    assert complete("smartcrawl crawl --max") == ["--max-pages"]
    assert complete("smartcrawl --data-dir x -s A=B undo --p") == ["--pin"]


def test_bash_completes_the_options_before_the_command(complete):
    assert complete("smartcrawl --ve") == ["--version"]
    assert complete("smartcrawl --da") == ["--data-dir"]


def test_bash_completes_values_that_are_a_choice(complete):
    assert complete("smartcrawl registry --format ") == ["table", "jsonl", "csv"]
    assert complete("smartcrawl completion ") == ["bash", "zsh", "fish"]


def test_the_steps_of_a_library_are_completed(complete, scripts: dict[str, str]):
    assert complete("smartcrawl library down") == ["download"]
    assert complete("smartcrawl library rep") == ["reports"]
    assert "(download process" in scripts["zsh"]
    assert any("download" in line and "library" in line for line in scripts["fish"].splitlines())


def test_bash_completes_files_and_no_other_value(complete):
    assert complete("smartcrawl crawl --logfile a") == ["a file.log"]
    assert complete("smartcrawl --data-dir st") == ["state"]
    assert complete("smartcrawl export --output st") == ["state"]
    assert complete("smartcrawl search --limit ") == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "completion"])
def test_every_option_of_every_command_is_completed(name: str, scripts: dict[str, str]):
    parser = front_door_parser(name, command_named(name))
    spellings = {
        spelling
        for action in parser._actions
        if action.help != SUPPRESS
        for spelling in action.option_strings
    }
    offered = next(
        line for line in scripts["bash"].splitlines()
        if line.startswith(f"_shtab_smartcrawl_{name}_option_strings=")
    )  # fmt: skip
    rows = [row for row in scripts["fish"].splitlines() if f" {name}" in row or f"_{name}" in row]

    assert set(shlex.split(offered.partition("=(")[2].rstrip(")"))) == spellings
    for spelling in spellings:
        assert re.search(rf"[\"*,{{]{spelling}[\[,}}]", scripts["zsh"])
        flag = f"-l {spelling[2:]}" if spelling.startswith("--") else f"-s {spelling[1:]}"
        assert any(flag in row for row in rows)


def test_a_colon_in_the_name_of_a_value_does_not_end_a_part_of_zsh(scripts: dict[str, str]):
    assert "]:HOST\\:PORT:" in scripts["zsh"]
    assert ":HOST:PORT" not in scripts["zsh"]


@pytest.mark.parametrize("command", ["due", "library"])
def test_an_option_that_help_hides_is_not_completed(complete, command: str):
    assert complete(f"smartcrawl {command} --out") == []
    assert complete(f"smartcrawl {command} --overwrite") == []
    assert complete(f"smartcrawl {command} --so") == ["--source"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_one_of_its_shell(shell: str, scripts: dict[str, str], tmp_path: Path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed on this machine")
    (tmp_path / "script").write_text(scripts[shell], encoding="utf-8")

    result = subprocess.run(
        [shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_another_shell_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert completion_command(words) == 2
    assert "expected one of bash, zsh, fish" in capsys.readouterr().err


def test_help_says_where_the_script_goes(capsys: pytest.CaptureFixture[str]):
    assert completion_command(["--help"]) == 0
    assert "~/.config/fish/completions/smartcrawl.fish" in capsys.readouterr().out

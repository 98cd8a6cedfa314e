"""Completion of ``smartcrawl``: asked of a real bash, and of zsh and fish where they are there."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from smartcrawl.commands.completion import (
    bash_completion,
    completion_command,
    fish_completion,
    options_of_commands,
    zsh_completion,
)
from smartcrawl.commands.listed import COMMANDS


@pytest.fixture(scope="module")
def options():
    return options_of_commands()


@pytest.fixture(scope="module")
def complete(options, tmp_path_factory: pytest.TempPathFactory):
    """Return what bash offers for a line, whose last word is being typed."""
    folder = tmp_path_factory.mktemp("bash")
    (folder / "state").mkdir()
    (folder / "a file.log").touch()
    (folder / "script").write_text(bash_completion(options), encoding="utf-8")

    def complete(line: str) -> list[str]:
        words = [shlex.quote(word) for word in line.split(" ")]
        asked = (
            f". ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1};"
            " _smartcrawl; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        result = subprocess.run(
            ["bash", "--norc", "-c", asked], cwd=folder, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout.splitlines() if result.stdout.strip() else []

    return complete


def test_bash_completes_commands(complete):
    assert complete("smartcrawl sea") == ["search"]
    assert set(COMMANDS) < set(complete("smartcrawl "))


def test_bash_completes_the_options_of_the_command(complete):
    assert complete("smartcrawl search --li") == ["--limit"]
    assert complete("smartcrawl search --max") == []
    assert complete("smartcrawl crawl --max") == ["--max-pages"]
    assert complete("smartcrawl --data-dir x -s A=B undo --p") == ["--pin"]


def test_bash_completes_values_that_are_a_choice(complete):
    assert complete("smartcrawl registry --format ") == ["table", "jsonl", "csv"]
    assert complete("smartcrawl completion ") == ["bash", "zsh", "fish"]


def test_the_steps_of_a_library_are_completed(complete, options):
    assert complete("smartcrawl library down") == ["download"]
    assert complete("smartcrawl library rep") == ["reports"]
    assert "'1:word:(download process" in zsh_completion(options)
    assert "seen_subcommand_from library' -a check\n" in fish_completion(options)


def test_bash_completes_files_and_no_other_value(complete):
    assert complete("smartcrawl crawl --logfile a") == ["a file.log"]
    assert complete("smartcrawl --data-dir st") == ["state"]
    assert complete("smartcrawl export --output st") == ["state"]
    assert complete("smartcrawl search --limit ") == []


def test_every_option_of_every_command_is_completed(options):
    assert options.keys() == COMMANDS.keys()
    scripts = {
        "bash": bash_completion(options),
        "zsh": zsh_completion(options),
        "fish": fish_completion(options),
    }

    for name, found in options.items():
        line = next(
            line for line in scripts["bash"].splitlines() if line.strip().startswith(f"{name}) w")
        )
        listed = next(
            line for line in scripts["zsh"].splitlines() if line.strip().startswith(f"{name}) _")
        )
        rows = [row for row in scripts["fish"].splitlines() if f"from {name}'" in row]
        for option in found:
            assert all(spelling in shlex.split(line[:-3])[1] for spelling in option.spellings)
            assert option.spellings[0] in listed
            offered = [
                f"-a {spelling}" if not spelling.startswith("-")
                else f"-l {spelling[2:]} " if spelling.startswith("--")
                else f"-s {spelling[1:]} "
                for spelling in option.spellings
            ]  # fmt: skip
            assert any(all(flag in row + " " for flag in offered) for row in rows)


def test_a_colon_in_the_name_of_a_value_does_not_end_a_part_of_zsh(options):
    script = zsh_completion(options)

    assert "]:HOST\\:PORT: " in script
    assert ":HOST:PORT" not in script


@pytest.mark.parametrize("command", ["due", "library"])
def test_an_option_that_help_hides_is_not_completed(complete, command: str):
    assert complete(f"smartcrawl {command} --out") == []
    assert complete(f"smartcrawl {command} --overwrite") == []
    assert complete(f"smartcrawl {command} --so") == ["--source"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_of_its_shell(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed on this machine")
    assert completion_command([shell]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out, encoding="utf-8")

    result = subprocess.run(
        [shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_another_shell_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert completion_command(words) == 2
    assert "it takes one of bash, zsh, fish" in capsys.readouterr().err


def test_help_says_where_the_script_goes(capsys: pytest.CaptureFixture[str]):
    assert completion_command(["--help"]) == 0
    assert "~/.config/fish/completions/smartcrawl.fish" in capsys.readouterr().out

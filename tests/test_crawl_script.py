"""script/crawl, in a folder that looks like a checkout: its own setup never runs here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documents import PROGRAM
from tests.site_server import Site, html

ROOT = Path(__file__).resolve().parents[1]
#: Variables of the environment that would change state, sources or the width of lines.
OTHERS = ("DATA_DIR", "SMARTCRAWL_DATA_DIR", "SOURCES_FILE", "COLUMNS")
#: In place of smartcrawl: prints its words and what it is given, and ends with a status.
STAND_IN = """\
#!/bin/sh
for word in "$@"; do echo "[$word]"; done
echo "in $PWD, state $SMARTCRAWL_DATA_DIR, sources $SOURCES_FILE"
exit {status}
"""
#: In place of script/setup.
SETUP = "#!/bin/sh\necho 'setting up' >&2\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with script/crawl, and the smartcrawl of this environment."""
    folder = tmp_path / "a checkout"
    (folder / "script").mkdir(parents=True)
    shutil.copy(ROOT / "script/crawl", folder / "script/crawl")
    program(folder / "script/setup", SETUP)
    ours = PROGRAM.format(python=sys.executable, root=str(ROOT))
    program(folder / ".venv/bin/smartcrawl", ours)
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def stand_in(checkout: Path, status: int = 0) -> None:
    program(checkout / ".venv/bin/smartcrawl", STAND_IN.format(status=status))


def run(
    checkout: Path, *words: str, cwd: Path | None = None, **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [checkout / "script/crawl", *words],
        cwd=cwd or checkout,
        env={name: v for name, v in os.environ.items() if name not in OTHERS} | environment,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def hint(out: str) -> str:
    """Return the command that searches, as the crawl prints it."""
    (line,) = (line for line in out.splitlines() if line.startswith("Search it:"))
    return line.removeprefix("Search it:").strip().replace("your words", "spare fuse")


def search(command: str, cwd: Path) -> str:
    """Type a command line, and return what it prints."""
    kept = {name: value for name, value in os.environ.items() if name not in OTHERS}
    done = subprocess.run(
        ["bash", "--norc", "-c", command],
        cwd=cwd, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_one_line_crawls_a_site_and_says_how_to_search_it_from_any_folder(
    checkout: Path, tmp_path: Path
):
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    with Site() as site:
        site.pages["/"] = html("Lamps", "/fuses")
        site.pages["/fuses"] = html("Fuses", text="Two spare fuses are in the lid.")
        first = run(checkout, site.url("/"))
        second = run(checkout, site.url("/"), "--force", cwd=elsewhere)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert first.stderr.startswith("setting up\n")
    assert hint(first.stdout).startswith(".venv/bin/smartcrawl search --source 127.0.0.1:")
    assert "Run 2 of " in second.stdout  # the state is that of the checkout
    assert "2 requests, 0 of them conditional" in second.stdout
    assert not list(elsewhere.iterdir())
    for printed, cwd in ((first.stdout, checkout), (second.stdout, elsewhere)):
        assert "Two spare fuses" in search(hint(printed), cwd)


@pytest.mark.long
def test_a_crawl_that_fails_gives_its_status_and_no_hint(checkout: Path):
    failed = run(checkout, "http://127.0.0.1:9/")

    assert failed.returncode == 3, failed.stderr
    assert "Search it" not in failed.stdout


@pytest.mark.parametrize("status", [0, 1, 2, 3, 4])
def test_every_word_is_handed_through_and_the_status_is_that_of_the_crawl(
    checkout: Path, status: int
):
    stand_in(checkout, status)
    words = ["https://a.example/", "-s", "A=b c", "-a", "force=1", "--max-pages", "3", ""]

    done = run(checkout, *words)

    assert done.returncode == status
    *given, last = done.stdout.splitlines()
    assert [word[1:-1] for word in given] == ["crawl", *words]
    assert last == f"in {checkout}, state {checkout}/.smartcrawl, sources "


@pytest.mark.parametrize(
    "words", [("./handbook",), ("--source", "docs"), ("docs", "--resume"), ("-a", "source=docs")]
)
def test_what_smartcrawl_crawls_is_not_refused(checkout: Path, tmp_path: Path, words: list[str]):
    """A folder is meant as seen from where the script is called."""
    stand_in(checkout)

    done = run(checkout, *words, cwd=tmp_path, SMARTCRAWL_DATA_DIR="/my state")

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[crawl]", *(f"[{word}]" for word in words), f"in {tmp_path}, state /my state, sources ",
    ]  # fmt: skip


def test_the_declared_sources_are_those_of_the_checkout(checkout: Path, tmp_path: Path):
    stand_in(checkout)
    (checkout / "sources.toml").touch()

    assert f"sources {checkout}/sources.toml\n" in run(checkout, "docs", cwd=tmp_path).stdout
    assert run(checkout).stdout.startswith("[crawl]\nin ")  # all of them
    named = run(checkout, "docs", SOURCES_FILE="other.toml").stdout
    assert named.endswith("sources other.toml\n")


def test_an_environment_without_our_program_crawls_with_the_modules_of_the_checkout(
    checkout: Path,
):
    """Such as one that `.venv` is a link to: script/setup takes it as it is."""
    (checkout / ".venv/bin/smartcrawl").unlink()
    python = '#!/bin/sh\necho "$@"\necho "$PYTHONPATH"\n'
    program(checkout / ".venv/bin/python", python)

    done = run(checkout, "https://a.example/", PYTHONPATH="/more")

    assert done.returncode == 0, done.stderr
    words, path = done.stdout.splitlines()
    assert words == "-m smartcrawl crawl https://a.example/"
    assert path == f"{checkout}:/more"


def test_without_anything_to_crawl_it_says_what_it_takes_and_prepares_nothing(checkout: Path):
    stand_in(checkout)

    done = run(checkout)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "script/crawl: name a site or a folder to crawl, as in script/crawl"
        " https://docs.example.com/; script/crawl --help lists more\n"
    )


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_help_prepares_nothing(checkout: Path, word: str):
    done = run(checkout, word)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("script/crawl URL | FOLDER | SOURCE [options]\n")
    assert "script/crawl https://docs.example.com/ --force" in done.stdout


def test_a_setup_that_fails_ends_it_with_its_status(checkout: Path):
    stand_in(checkout)
    program(checkout / "script/setup", "#!/bin/sh\nexit 7\n")

    done = run(checkout, "https://a.example/")

    assert (done.returncode, done.stdout) == (7, "")

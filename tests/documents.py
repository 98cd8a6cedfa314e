"""Commands of the manual, run for real.

Rules for a page whose commands run in a test:

- A block ``sh`` is run by bash, in one shell and one folder for the whole page; each of its
  commands has to succeed.
- A block ``console`` shows commands behind ``$ ``, and below each what it prints on standard
  output. A command has to succeed, unless the next one is ``echo $?``.
- ``sh WORD`` is not run. Its syntax is checked, and WORD is one of `NOT_RUN`, with the reason.
- ``docs.example.com`` and ``127.0.0.1:8000`` stand for a site; a local server takes their place.
- Times, sizes and dates may differ; a line ``…`` stands for any lines, ``…`` within a line for any
  text.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import NamedTuple

#: Words behind ``sh`` of a block that no test runs.
NOT_RUN = {
    "checkout": "it needs a checkout; in_checkout() makes one, and runs its crawl",
    "client": "test_documents.py runs it without its installation, and asks as a client does",
    "install": "tests of the package install it, from the checkout instead of an index",
    "places": "its folders, buckets and repositories are those of a reader",
    "root": "it changes the system",
    "servers": "it needs a server; play_demo() runs it where one is given",
}
SECONDS = 180  #: for one command, however busy the machine is
ROOT = Path(__file__).resolve().parents[1]
#: The program as an installation makes it, with the modules of this checkout.
PROGRAM = """\
#!{python}
import sys

sys.path.insert(0, {root!r})
from smartcrawl.commands.front import main_command

sys.exit(main_command(sys.argv[1:]))
"""

_BLOCK = re.compile(r"^```(\w+)?(?: ([\w.]+))?\n(.*?)^```$", re.M | re.S)
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "<date>"),
    (re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT"), "<date>"),
    (re.compile(r"\b\d{1,2} [A-Z][a-z]{2} \d\d:\d\d\b"), "<date>"),
    (re.compile(r"\b[\d.,]+ (?:B|kB|MB|GB)\b"), "<size>"),
    (re.compile(r"\b[\d.,]+ (?:ms|s|min|h|d|days?)\b"), "<time>"),
    (re.compile(r"[\w.]+/s\b"), "<rate>"),
    (re.compile(r"  +"), "  "),
)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    word: str
    text: str


def blocks(path: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Block(path.name, line, found[1] or "", found[2] or "", found[3])


def runs(path: Path, words: Container[str] = ("",)) -> list[Block]:
    """Return the blocks of a page whose commands are run, with these words behind ``sh``."""
    found = [block for block in blocks(path) if block.language in ("sh", "console")]
    return [block for block in found if block.word in words]


def commands(block: Block) -> Iterator[tuple[str, str]]:
    """Yield the commands of a block, each with the output that the page shows."""
    if block.language == "sh":
        yield block.text, "…\n"
        return
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        lines = part.splitlines(keepends=True)
        count = 1
        while lines[count - 1].endswith("\\\n"):
            count += 1
        yield "".join(lines[:count]), "".join(lines[count:])


def differs(shown: str, printed: str) -> str:
    """Return an empty string if the page shows the printed text, else the pattern it broke."""
    expected = [re.escape(line).replace("…", ".*") for line in _plain(shown)]
    pattern = "".join(r"(?:.*\n)*" if line == ".*" else f"{line}\n" for line in expected)
    text = "".join(f"{line}\n" for line in _plain(printed))
    return "" if re.fullmatch(pattern, text) else pattern or "nothing"


def _plain(text: str) -> list[str]:
    for pattern, word in _VARIES:
        text = pattern.sub(word, text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


class Shell:
    """One bash in a new folder ``home``, with the command of this checkout in its path."""

    def __init__(self, folder: Path, site: str, servers: Mapping[str, str] | None = None) -> None:
        self.folder, self.site, self.servers = folder / "home", site, servers or {}
        self.folder.mkdir()
        program = folder / "bin" / "smartcrawl"
        program.parent.mkdir()
        program.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT)), "utf-8")
        program.chmod(0o755)
        path = f"{program.parent}:{os.environ['PATH']}"
        kept = ("LANG", "LC_ALL", "TMPDIR", "SSL_CERT_FILE")
        self._process = subprocess.Popen(
            ["bash", "--norc"],
            cwd=self.folder,
            env={**{name: os.environ[name] for name in kept if name in os.environ},
                 "HOME": str(self.folder), "PATH": path, "COLUMNS": "160"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )  # fmt: skip

    def here(self, text: str) -> str:
        """Put local servers in the place of the site and the servers of the manual."""
        for of_manual, local in self.servers.items():
            text = text.replace(of_manual, local)
        text = text.replace("https://docs.example.com", f"http://{self.site}")
        text = text.replace("docs.example.com", self.site).replace("127.0.0.1:8000", self.site)
        return re.sub(r"\b8000\b", self.site.rpartition(":")[2], text)

    def run(self, command: str, status: int = 0) -> tuple[int, str, str]:
        """Run a command after one that ended with a status; return its status and output."""
        with tempfile.TemporaryDirectory() as folder:
            out, error = Path(folder, "out"), Path(folder, "error")
            self._write(
                f"(exit {status})\n"
                f"{{ {self.here(command).rstrip()}\n}} >{out} 2>{error} </dev/null\n"
                "printf 'ended %s\\n' $?\n"
            )
            clock = Timer(SECONDS, self._kill)
            clock.start()
            ended = self._process.stdout.readline() if self._process.stdout else ""
            clock.cancel()
            return (
                int(ended.split()[1]) if ended.startswith("ended ") else -1,
                out.read_text(encoding="utf-8") if out.exists() else "",
                error.read_text(encoding="utf-8") if error.exists() else "",
            )

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text)
        self._process.stdin.flush()

    def close(self) -> None:
        """End the shell and every process that it started."""
        self._kill()
        self._process.communicate()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


def in_checkout(path: Path, shell: Shell) -> list[str]:
    """Run the crawl of a page's block ``sh checkout``, and return what went wrong.

    The folder of the shell becomes a checkout that is set up. ``script/test`` is what continuous
    integration runs, and is not run here.
    """
    found = runs(path, ("checkout",))
    if not found:
        return []
    script = shell.folder / "script"
    script.mkdir()
    shutil.copy(ROOT / "script" / "crawl", script)
    (script / "setup").write_text("#!/bin/sh\n", "utf-8")
    (script / "setup").chmod(0o755)
    program = shell.folder / ".venv" / "bin" / "smartcrawl"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT)), "utf-8")
    program.chmod(0o755)
    wrong = []
    for block in found:
        for line in block.text.splitlines():
            if line.startswith("script/crawl "):
                status, printed, errors = shell.run(line)
                if status:
                    wrong.append(f"{line}\nended with {status}\n{printed}\n{errors[-2000:]}")
    return wrong


def play(path: Path, shell: Shell) -> list[str]:
    """Run the commands of a page; return the differences to what it shows."""
    wrong, status = [], 0
    for block in runs(path, ("", "servers") if shell.servers else ("",)):
        parts = list(commands(block))
        for number, (command, shown) in enumerate(parts):
            where = f"{block.page}:{block.line}: {command.strip().splitlines()[0]}"
            strict = f"set -e\n{command}set +e\n" if block.language == "sh" else command
            status, printed, errors = shell.run(strict, status)
            asked = number + 1 < len(parts) and parts[number + 1][0].strip() == "echo $?"
            if status and not asked:
                wrong.append(f"{where}\nended with {status}\n{printed}\n{errors[-2000:]}")
            elif pattern := differs(shell.here(shown), printed):
                wrong.append(f"{where}\nprinted\n{printed}\nnot\n{shell.here(shown)}\n{pattern}")
            if status < 0:
                return wrong
    return wrong

"""Parts that the benchmarks share: measured processes, turns, medians."""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

BENCH = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "smartcrawl-bench"

Figures = dict[str, Any]  #: of one process: pages, cpu, wall, rss, and ms: of CPU a page
Round = dict[str, Figures]  #: by who it was


class UnavailableError(Exception):
    """A peer cannot be built or had on this machine; the message says why, and what to do."""


def parser(text: str, quick: str = "fewer pages and rounds, under 60 s") -> argparse.ArgumentParser:
    """Return a parser of the arguments that every benchmark has; ``text`` is its docstring."""
    made = argparse.ArgumentParser(description=text.splitlines()[0])
    made.add_argument("--quick", action="store_true", help=quick)
    for what in ("pages", "rounds"):
        most = f"no more {what} than that; the page says how many there were"
        made.add_argument(f"--{what}", type=int, metavar="N", help=most)
    made.add_argument("--write", action="store_true", help="into docs/benchmarks.md as well")
    return made


def extent(
    asked: argparse.Namespace, whole: tuple[int, int], quick: tuple[int, int]
) -> tuple[int, int]:
    """Return how many pages and rounds to measure, of those of the whole or the quick form."""
    pages, rounds = quick if asked.quick else whole
    return min(pages, asked.pages or pages), min(rounds, asked.rounds or rounds)


def run(script: str, *arguments: str | Path) -> Figures:
    """Run a script of this folder in a process of its own and return its last line, JSON."""
    return measured([sys.executable, BENCH / script, *arguments])


def measured(command: Sequence[str | Path]) -> Figures:
    """Run a program that measures itself and return its last line, JSON."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        fault = f"{Path(command[0]).name} failed ({done.returncode})"
        raise SystemExit(f"{fault}: {command[1:]}\n{done.stdout}{done.stderr}")
    return _a_page(json.loads(lines[-1]))


def watched(
    command: Sequence[str | Path],
    pages: Callable[[], int],
    *,
    out: int | IO[bytes] = subprocess.DEVNULL,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Figures:
    """Run a program that does not, from its start to its end; ``pages`` counts what it did.

    ``out``: where its standard output goes. ``environment`` and ``folder``: None are those of this
    process.
    """
    wall = time.perf_counter()
    with subprocess.Popen([*map(str, command)], stdout=out, env=environment, cwd=folder) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{Path(command[0]).name} failed ({process.returncode})")
    return _a_page(
        {
            "pages": pages(),
            "cpu": used.ru_utime + used.ru_stime,
            "wall": time.perf_counter() - wall,
            "rss": used.ru_maxrss / 1024,
        }
    )


def _a_page(figures: Figures) -> Figures:
    if figures.get("pages"):
        figures["ms"] = 1000 * figures["cpu"] / figures["pages"]
    return figures


def turns(rounds: int, contenders: Mapping[str, Callable[[], Figures]]) -> list[Round]:
    """Measure several in turns, so that a change of the machine's speed meets all of them.

    Every other round goes backwards, so that no contender always follows the same one.
    """
    done = []
    for number in range(rounds):
        order = list(contenders)[:: -1 if number % 2 else 1]
        found = {name: contenders[name]() for name in order}
        done.append({name: found[name] for name in contenders})
        print(f"  round {number + 1}")
        for name, figures in done[-1].items():
            cost = f"{figures['ms']:8.3f} ms CPU a page, {figures['wall']:5.1f} s"
            print(f"    {name:20} {cost}, {figures['rss']:4.0f} MiB", flush=True)
    return done


def ratio(rounds: Sequence[Round], one: str, other: str, key: str = "ms") -> float:
    """Return the median of one contender's figure divided by another's, round by round."""
    return statistics.median(found[one][key] / found[other][key] for found in rounds)


def median(rounds: Sequence[Round], name: str, key: str) -> float:
    """Return the median of a contender's figure."""
    return statistics.median(found[name][key] for found in rounds)


def built_colly() -> Path:
    """Return the program of bench/colly, built at first use and kept.

    Raises:
        UnavailableError: there is no Go, or it cannot build it.
    """
    folder = BENCH / "colly"
    go = shutil.which("go")
    if go is None:
        raise UnavailableError("Go is not installed (https://go.dev/dl, or apt-get install golang)")
    sources = [folder / name for name in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    program = CACHE / f"colly-{digest[:12]}"
    if not program.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        print("building the peer in Go", flush=True)
        command = [go, "build", "-mod=readonly", "-o", str(program), "."]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"Go cannot build it: {done.stderr.strip()}")
    return program


def found_wget() -> Path:
    """Return wget.

    Raises:
        UnavailableError: it is not installed.
    """
    program = shutil.which("wget")
    if program is None:
        raise UnavailableError("wget is not installed (apt-get install wget)")
    return Path(program)

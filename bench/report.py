"""Figures against their targets: a table, one line of JSON, and a section of docs/benchmarks.md."""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw
import psycopg
import redis

from bench.measure import BENCH, Round, UnavailableError, median
from tests.servers import nginx_lookup

MET = "met"
PAGE = BENCH.parent / "docs" / "benchmarks.md"


class Report:
    """The figures of one benchmark; the last line that it prints is one JSON object."""

    def __init__(self, name: str, asked: argparse.Namespace) -> None:
        self._name = name
        self._asked = asked
        self._rows: dict[str, dict[str, Any]] = {}
        self._lines: list[str] = []
        self._lacking: list[str] = []
        self._versions: dict[str, str] = {}

    def add(self, name: str, value: float, target: float, better: str = "less") -> None:
        """Add a figure; ``better`` is ``less`` or ``more``."""
        self._rows[name] = {"value": round(value, 4), "target": target, "better": better}

    def contenders(self, what: str, rounds: Sequence[Round]) -> None:
        """Add a table of the medians of each contender, which have no target."""
        rows = [
            f"| {what}, {_rounds(len(rounds))} | ms CPU a page | pages/s | peak MiB |",
            "| --- | --- | --- | --- |",
        ]
        for name in rounds[0]:
            cpu, wall, rss, pages = (
                median(rounds, name, k) for k in ("ms", "wall", "rss", "pages")
            )
            rows.append(f"| {name} | {cpu:.3f} | {pages / wall:,.0f} | {rss:.0f} |")
        self._lines += ["", *rows]

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table of figures without a target."""
        lines = [head, ["---"] * len(head), *rows]
        self._lines += ["", *(f"| {' | '.join(line)} |" for line in lines)]

    def lacks(self, name: str, error: UnavailableError) -> None:
        """Say that a figure could not be measured, and why."""
        self._lacking.append(f"`{name}` was not measured: {error}")
        print(f"  {self._lacking[-1]}", flush=True)

    def used(self, name: str, text: str) -> None:
        """Note the version of a peer."""
        self._versions[name] = text

    def print(self) -> int:
        """Print the tables and the line, and write them if asked; return 1 on a missed target."""
        figures = [
            (f"`{name}`", f"{row['value']:,}", f"{_sign(row)} {row['target']:,}", verdict(row))
            for name, row in self._rows.items()
        ]
        head = ("figure", "value", "target", "")
        widths = [max(map(len, column)) for column in zip(head, *figures, strict=True)]
        print()
        for line in figures:
            print("  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)))
        text = [f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *figures)]
        text += ["", *self._lacking] if self._lacking else []
        text += [*self._lines, "", self._facts()]
        print("\n".join([*self._lacking, *self._lines, "", self._facts()]))
        if self._asked.write:
            PAGE.write_text(written(PAGE.read_text(), self._name, "\n".join(text)))
            print(f"written into {PAGE.relative_to(BENCH.parent)}")
        print(json.dumps(self._rows))
        return int(any(verdict(row) != MET for row in self._rows.values()))

    def _facts(self) -> str:
        """Return on what, with what and when it was measured."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
        parts = {"Python": platform.python_version(), "Scrapy": version("scrapy")}
        parts |= {"SQLite": apsw.sqlite_lib_version(), "nginx": _nginx_version()} | self._versions
        versions = ", ".join(f"{name} {number}" for name, number in parts.items() if number)
        form = " in the quick form" if self._asked.quick else ""
        machine = f"{platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory"
        return f"Measured {datetime.now(UTC).date()}{form}: {machine}; {versions}."


def verdict(row: dict[str, Any]) -> str:
    """Return whether a figure meets its target, or by how much it misses it."""
    value, target = row["value"], row["target"]
    if value <= target if row["better"] == "less" else value >= target:
        return MET
    return f"missed by {abs(value - target) / target:.0%}"


def _rounds(count: int) -> str:
    return "one round" if count == 1 else f"medians of {count} rounds"


def _sign(row: dict[str, Any]) -> str:
    return "≤" if row["better"] == "less" else "≥"


def written(page: str, name: str, text: str) -> str:
    """Return the page with the part of one benchmark replaced; all else stays as people wrote it.

    The part stands between two comments; without them it is a new section at the end.
    """
    begin, end = f"<!-- bench/{name} -->", f"<!-- end of bench/{name} -->"
    part = f"{begin}\n{text.strip()}\n{end}"
    if begin not in page:
        return f"{page.rstrip()}\n\n## `bench/{name}`\n\n{part}\n"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"docs/benchmarks.md has {begin} without {end}")
    return f"{before}{part}{after}"


def version_line(command: Sequence[str | Path]) -> str:
    """Return the first version number that a program prints, "" if none."""
    if shutil.which(str(command[0])) is None:
        return ""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else ""


def postgres_version(url: str) -> str:
    """Return the version of a PostgreSQL."""
    with psycopg.connect(url) as connection:
        return connection.execute("SHOW server_version").fetchone()[0].split()[0]


def redis_version(url: str) -> str:
    """Return the version of a Redis."""
    with redis.Redis.from_url(url) as client:
        return client.info("server")["redis_version"]


def _nginx_version() -> str:
    found = nginx_lookup()
    return version_line([found[0], "-v"]) if isinstance(found, tuple) else ""

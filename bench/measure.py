"""What the benchmarks share: turns, medians, a table, and one line of JSON at the end."""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "smartcrawl-bench"


def run(script: str, *arguments: str | Path) -> dict[str, Any]:
    """Run a script of this folder in a process of its own and return its last line, JSON."""
    done = subprocess.run(
        [sys.executable, str(BENCH / script), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        raise SystemExit(f"{script} failed ({done.returncode}):\n{done.stdout}{done.stderr}")
    measured = json.loads(lines[-1])
    if measured.get("pages"):
        measured["ms"] = 1000 * measured["cpu"] / measured["pages"]
    return measured


def turns(
    rounds: int, ours: Callable[[], dict[str, Any]], peer: Callable[[], dict[str, Any]]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Measure two things in turns, so that a change of the machine's speed meets both."""
    pairs = []
    for number in range(rounds):
        pair = (ours(), peer()) if number % 2 else (peer(), ours())[::-1]
        pairs.append(pair)
        print(
            f"  round {number + 1}: ours {pair[0]['ms']:.3f} ms CPU a page, peer"
            f" {pair[1]['ms']:.3f}, ratio {pair[0]['ms'] / pair[1]['ms']:.3f};"
            f" RSS {pair[0]['rss']:.0f} against {pair[1]['rss']:.0f} MiB",
            flush=True,
        )
    return pairs


def ratio(pairs: list[tuple[dict[str, Any], dict[str, Any]]], key: str) -> float:
    """Return the median of ours divided by the peer's, pair by pair."""
    return statistics.median(ours[key] / peer[key] for ours, peer in pairs)


class Report:
    """Figures against their targets; the last line is one JSON object."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}

    def add(self, name: str, value: float, target: float, better: str = "less") -> None:
        """Add a figure; ``better`` is ``less`` or ``more``."""
        self._rows[name] = {"value": round(value, 4), "target": target, "better": better}

    def print(self) -> int:
        """Print the table and the line; return 1 when a target is missed."""
        print(f"\n{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
        missed = 0
        for name, row in self._rows.items():
            less = row["better"] == "less"
            met = row["value"] <= row["target"] if less else row["value"] >= row["target"]
            missed += not met
            sign = "≤" if less else "≥"
            told = "met" if met else "MISSED"
            print(f"{name:44} {row['value']:>10} {sign} {row['target']:<8} {told}")
        print(json.dumps(self._rows))
        return int(bool(missed))

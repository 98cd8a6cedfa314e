"""Measure how many faults the tests notice: mutants of all rooms, drawn by a seed.

    tests/gate.py draw --seed 47 400            write the list of mutants, tests/data/gate.tsv
    tests/gate.py hits --copy DIR --out OUT     which tests come by which mutant, and take how long
    tests/gate.py run --copy DIR --out OUT      try the mutants; goes on where it was stopped
    tests/gate.py report OUT [OUT ...]          how many are noticed in each room, and which are not

DIR is a checkout of its own with .venv (`git worktree add`, `script/setup test`), whose package is
changed on the way. `run` takes --copy several times, and tries so many mutants at once. OUT is a
folder outside of it: `hits` writes hits.json and durations.tsv, `run` results.tsv.

A list is one mutant a line: its module, the function that it is in, the change, and which one it is
among equal changes of the function. The first 200 lines are the short form. The file is written
before tests change; a mutant is found again by these four as long as its code stays.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests import mutants
from tests.gauge import results
from tests.gauge.marking import mark
from tests.gauge.record import Record
from tests.gauge.trying import Trials, environment, path_of

ROOT = Path(__file__).resolve().parent.parent
LIST = Path("tests/data/gate.tsv")  #: in a checkout


class Name(NamedTuple):
    """What a mutant is found by."""

    module: str
    function: str  #: empty: the module itself
    change: str
    ordinal: int = 1

    @property
    def room(self):
        return self.module.partition(".")[0]

    def __str__(self):
        number = f" ({self.ordinal})" if self.ordinal > 1 else ""
        return f"{self.module} {self.function}: {self.change}{number}"


def name_of(mutant):
    return Name(mutant.module, mutant.function, mutant.change, mutant.ordinal)


def all_names(root):
    """Return the names of all mutants of a checkout, in order."""
    trees = mutants.modules_of(root)
    enums = mutants.enums_of(trees)
    return sorted(
        name_of(mutant)
        for module, tree in trees.items()
        for mutant in mutants.mutants_of_module(module, tree, enums)
    )


def drawn(names, seed, count):
    """Return so many of the names, in the order in which a seed draws them."""
    return random.Random(seed).sample(names, min(count, len(names)))


def write_list(path, names, heading):
    """Write a list of mutants."""
    lines = [f"# {heading}", *("\t".join(map(str, name)) for name in names)]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_list(path):
    """Return the names in a list of mutants."""
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = (line.split("\t") for line in lines if line and not line.startswith("# "))
    return [Name(module, function, change, int(n)) for module, function, change, n in rows]


def draw(options):
    """Draw mutants and write their list."""
    names = all_names(options.checkout)
    heading = f"{options.count} of {len(names)} mutants, drawn by seed {options.seed}"
    target = options.list or options.checkout / LIST
    write_list(target, drawn(names, options.seed, options.count), heading)
    print(f"{heading}: {target}")
    return 0


def hits(options):
    """Run all tests in a marked copy, and write what they come by."""
    out, copy = options.out.resolve(), options.copy.resolve()
    names = read_list(options.list or ROOT / LIST)
    _restore(copy)
    shutil.rmtree(out / "marks", ignore_errors=True)
    shutil.rmtree(out / "log", ignore_errors=True)
    (out / "log").mkdir(parents=True)
    missing = mark(copy, names, out / "marks")
    workers = ["-n", str(options.workers), "--dist=worksteal"] if options.workers > 1 else []
    python = copy / ".venv/bin/python"
    plugins = ["-p", "tests.gate_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [python, "-m", "pytest", "-q", *plugins, *workers, *options.pytest],
        cwd=copy,
        env=environment(copy, out / "log"),
        check=False,
    )
    _restore(copy)
    record = Record.collected(out, [n for n, name in enumerate(names) if name in set(missing)])
    record.write(out / "hits.json")
    record.write_durations(out / "durations.tsv")
    executed = len(record.hits)
    print(f"pytest ended with {done.returncode}; {len(record.tests)} tests come by {executed} of ")
    print(f"{len(names)} mutants, {len(missing)} are not in this checkout")
    return 0


def _restore(copy):
    subprocess.run(["git", "checkout", "-q", "--", "smartcrawl"], cwd=copy, check=True)
    (copy / "smartcrawl/_gate_hits.py").unlink(missing_ok=True)


def run(options):
    """Try the mutants that have no result yet."""
    if len(options.copy) > 1:
        return _run_beside(options)
    copy, out = options.copy[0].resolve(), options.out.resolve()
    _restore(copy)
    shutil.copy(ROOT / "tests/gauge/plugin.py", copy / "tests/gate_plugin.py")
    names = read_list(options.list or ROOT / LIST)
    trees = mutants.modules_of(copy)
    enums = mutants.enums_of(trees)
    record = Record.read(out / "hits.json")
    share, of = map(int, options.share.split("/"))
    trials = Trials(copy, record, out / f"trial{share}", ["--all"] if options.all else [])
    trials.begin()
    known = results.read(out / "results.tsv")
    for number, name in enumerate(names[: options.first]):
        if number % of != share or number in known:
            continue
        verdict = _tried(trials, record, number, name, copy, enums)
        results.add(out / "results.tsv", number, name, verdict)
        print(f"{number} {verdict[0]}, {verdict[1]}: {name}", flush=True)
    return 0


def _tried(trials, record, number, name, copy, enums):
    """Return how one mutant ends: verdict, how, CPU seconds, number of tests, the last test."""
    path = path_of(copy, name.module)
    if number in record.missing or not path.exists():
        return ("gone", "not in this checkout", 0.0, 0, "")
    tests = record.plan(number)
    if not tests:
        return ("not executed", "", 0.0, 0, "")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = mutants.mutants_of_module(name.module, tree, enums)
    mutant = next(mutant for mutant in found if name_of(mutant) == name)
    verdict = trials.attempt(path, mutants.changed_text(tree, mutant), tests)
    word = "noticed" if verdict.noticed else "not noticed"
    return (word, verdict.how, verdict.cpu, verdict.ran, verdict.test)


def _run_beside(options):
    """Try mutants in several copies at the same time."""
    words = [sys.executable, __file__, "run", "--out", str(options.out)]
    words += ["--list", str(options.list)] if options.list else []
    words += ["--first", str(options.first)] if options.first else []
    words += ["--all"] if options.all else []
    count = len(options.copy)
    started = [
        subprocess.Popen([*words, "--copy", str(copy), "--share", f"{number}/{count}"])
        for number, copy in enumerate(options.copy)
    ]
    return max(process.wait() for process in started)


def report(options):
    """Print how many mutants are noticed in each room, and those that are not."""
    print(results.report([results.read(out / "results.tsv") for out in options.out], options.first))
    return 0


def main(words):
    """Run a command; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--checkout", type=Path, default=ROOT, help="another one than this")
    shared.add_argument("--list", type=Path, help=f"the mutants; {LIST} of the checkout")
    of_draw = commands.add_parser("draw", parents=[shared], help="write the list of mutants")
    of_draw.add_argument("--seed", type=int, required=True)
    of_draw.add_argument("count", type=int)
    of_draw.set_defaults(run=draw)
    of_hits = commands.add_parser("hits", parents=[shared], help="which tests come by what")
    of_hits.add_argument("--copy", type=Path, required=True)
    of_hits.add_argument("--out", type=Path, required=True)
    of_hits.add_argument("--workers", type=int, default=3)
    of_hits.add_argument("pytest", nargs="*", help="arguments of pytest, as -- --all")
    of_hits.set_defaults(run=hits)
    of_run = commands.add_parser("run", parents=[shared], help="try the mutants")
    of_run.add_argument("--copy", type=Path, required=True, action="append")
    of_run.add_argument("--out", type=Path, required=True)
    of_run.add_argument("--first", type=int, help="so many of the list alone")
    of_run.add_argument("--all", action="store_true", help="the hits are those of --all")
    of_run.add_argument("--share", default="0/1", help=argparse.SUPPRESS)
    of_run.set_defaults(run=run)
    of_report = commands.add_parser("report", help="print the tables")
    of_report.add_argument("out", type=Path, nargs="+")
    of_report.add_argument("--first", type=int, help="so many of the list alone")
    of_report.set_defaults(run=report)
    options = parser.parse_args(words)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

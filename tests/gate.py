"""Measure how many faults the tests notice: mutants of all rooms, drawn by a seed.

    tests/gate.py draw --seed 47 400      write the list of mutants, tests/data/gate.tsv

A list is one mutant a line: its module, the function that it is in, the change, and which one it is
among equal changes of the function. The first 200 lines are the short form. The file is written
before tests change; a mutant is found again by these four as long as its code stays.
"""

import argparse
import random
import sys
from pathlib import Path
from typing import NamedTuple

from tests import mutants

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
    options = parser.parse_args(words)
    return options.run(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

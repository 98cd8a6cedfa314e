"""The tables of docs/decisions.md, for the tests that compare them with the code."""

import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "decisions.md"


@cache
def section(title):
    """Return the text below a heading."""
    return PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


@cache
def tables(title):
    """Return the tables below a heading, each a list of rows of cells without its header."""
    blocks = re.findall(r"(?:^\|.*\n?)+", section(title), re.MULTILINE)
    return [[_cells(line) for line in block.splitlines()][2:] for block in blocks]


@cache
def header(title, place=0):
    """Return the header of a table below a heading."""
    blocks = re.findall(r"(?:^\|.*\n?)+", section(title), re.MULTILINE)
    return _cells(blocks[place].splitlines()[0])


def table(title, place=0):
    """Return the rows of the first, or another, table below a heading, as lists of cells."""
    return tables(title)[place]


@cache
def names(cell):
    """Return what a cell lists: ``redirect, alias``."""
    return [name.strip() for name in cell.split(",")]


def fits(cell, name):
    """Whether a cell speaks of a name: it lists it, or says *any* or *any other*."""
    return cell in ("any", "any other") or name in names(cell)


@cache
def numbers(cell):
    """Return the numbers that a cell lists: ``408, 500 to 599``."""
    found = set()
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", cell):
        found.update(range(int(first), int(last or first) + 1))
    return found


def _cells(line):
    return [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]

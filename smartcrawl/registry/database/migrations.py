"""The numbered steps of a schema (ADR 129)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

Migration = tuple[int, tuple[str, ...]]  #: version, statements


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return the steps of a database's schema, in order; their files are read once."""
    folder = files("smartcrawl.registry").joinpath("schema", dialect)
    named = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(
        (int(name.split("_")[0]), tuple(entry.read_text("utf-8").split("\n--;\n")))
        for name, entry in named
    )

"""The numbered steps of a schema (design.md 5)."""

from __future__ import annotations

from importlib.resources import files


def migrations(dialect: str) -> list[tuple[int, list[str]]]:
    """Return the steps of a database's schema as (version, statements), in order."""
    folder = files("smartcrawl.registry").joinpath("schema", dialect)
    named = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        (int(name.split("_")[0]), entry.read_text("utf-8").split("\n--;\n"))
        for name, entry in named
    ]

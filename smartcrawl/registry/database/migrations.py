"""The schema of a registry, and the numbered steps that change it (ADR 129, 140)."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from smartcrawl.model.exceptions import RegistryVersionError

Migration = tuple[int, tuple[str, ...]]  #: version, statements


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return the whole schema of a database, and the steps after it; their files are read once."""
    folder = files("smartcrawl.registry").joinpath("schema", dialect)
    named = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(
        (int(name.split("_")[0]), tuple(entry.read_text("utf-8").split("\n--;\n")))
        for name, entry in named
    )


def is_older_layout(dialect: str, version: int) -> bool:
    """Whether a schema version is from before the first one that a registry can begin with."""
    return 0 < version < migrations(dialect)[0][0]


def older_layout_error(place: object, version: int, remedy: str) -> RegistryVersionError:
    """Return the error of a registry that no step leads to this schema."""
    return RegistryVersionError(
        f"{place} has the layout of an older smartcrawl, schema version {version}, which this one"
        " can neither read nor convert. It is not damaged, and nothing was changed. To go on,"
        f" {remedy}, and crawl anew"
    )

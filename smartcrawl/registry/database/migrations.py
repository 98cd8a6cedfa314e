"""The schema of a registry, and the numbered steps that change it (ADR 129, 140)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from smartcrawl.model.exceptions import RegistryVersionError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Migration = tuple[int, tuple[str, ...]]  #: version, statements


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Return the whole schema of a database, and the steps after it; their files are read once."""
    folder = _schemas().joinpath(dialect)
    named = sorted((entry.name, entry) for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(
        (int(name.split("_")[0]), tuple(entry.read_text("utf-8").split("\n--;\n")))
        for name, entry in named
    )


def _schemas() -> Path | Traversable:
    """Return the folder of all schemas, also in an egg, for which Python has to be asked."""
    folder = Path(__file__).parents[1] / "schema"
    if folder.is_dir():
        return folder
    from importlib.resources import files  # noqa: PLC0415  # it takes longer than the statements

    return files("smartcrawl.registry").joinpath("schema")


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

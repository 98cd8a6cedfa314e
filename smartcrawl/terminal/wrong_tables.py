"""Tables of sources.toml with mistakes, named by commands that go on with the other sources."""

from __future__ import annotations

from collections.abc import Sequence

from smartcrawl.model.exceptions import SourceError
from smartcrawl.sources.declared import DeclaredSources
from smartcrawl.terminal.output import print_complaint


def print_wrong_tables(name: str, declared: DeclaredSources, sources: Sequence[str]) -> None:
    """Print what is wrong in the tables of some sources; ``sources`` empty means all."""
    try:
        declared.check(sources or None)
    except SourceError as error:
        print_complaint(name, str(error))

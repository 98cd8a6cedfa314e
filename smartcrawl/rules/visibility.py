"""Who may read which sources: the visibility of a source, and what a caller reads (ADR 147)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Visibility(StrEnum):
    """Whether all who may ask read a source. The words are stored; never rename."""

    PUBLIC = "public"
    PRIVATE = "private"  #: only those read it whose key names it, and administrators


VISIBILITIES: Final = tuple(one.value for one in Visibility)


def declared_visibility(explicit: Visibility | None, *, has_login: bool) -> Visibility | None:
    """Return the visibility that the table of a source declares; None: it declares none.

    ``explicit``: the value of its key ``visibility``.

    >>> declared_visibility(None, has_login=True)
    <Visibility.PRIVATE: 'private'>
    >>> declared_visibility(Visibility.PUBLIC, has_login=True)
    <Visibility.PUBLIC: 'public'>
    """
    if explicit is not None:
        return explicit
    return Visibility.PRIVATE if has_login else None


def source_visibility(stored: Visibility | None, declared: Visibility | None) -> Visibility:
    """Return the visibility of a source; ``stored``: its visibility so far, None: it is new.

    A login makes it private, and only its key ``visibility`` opens it again, not the loss of the
    login.
    """
    return declared or stored or Visibility.PUBLIC


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who asks, with the sources that he may read."""

    sees_all: bool = False  #: an administrator, or whoever runs the commands
    sources: frozenset[str] = frozenset()  #: those of his key; empty: the public ones
    #: The visibilities that tables declare today, by source; for the others the stored one counts.
    visibilities: Mapping[str, Visibility] = field(default_factory=dict)

    def may_read(self, name: str, stored: Visibility | None) -> bool:
        """Whether he may read a source; ``stored``: None if it was never crawled."""
        if self.sees_all:
            return True
        if self.sources:
            return name in self.sources
        return source_visibility(stored, self.visibilities.get(name)) is Visibility.PUBLIC

    def reads_every(self, private: Iterable[str]) -> bool:
        """Whether he may read every source; ``private``: those that are stored as private."""
        if self.sees_all or self.sources:
            return self.sees_all
        return Visibility.PRIVATE not in self.visibilities.values() and all(
            self.may_read(name, Visibility.PRIVATE) for name in private
        )


EVERYTHING: Final = Reader(sees_all=True)  #: commands, and MCP over standard input and output

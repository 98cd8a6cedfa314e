"""The operator's selection of files in a folder or a store, by their relative paths."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from smartcrawl.sources.listing.entries import Skip
from smartcrawl.sources.scope import SKIPPED_EXTENSIONS

_DEPTH: Final = "**"
_UNKNOWN: Final = re.compile(r"[?\[\]{}\\\0]")
_HIDDEN: Final = re.compile(r"(?:^|/)\.(?!\.?(?:/|\Z))")
_REFUSALS: Final = {
    Skip.HIDDEN: "its name, or that of a folder above it, begins with a dot",
    Skip.EXCLUDED: "one of exclude matches it, or a folder above it",
    Skip.NOT_INCLUDED: "none of include matches it",
}


@dataclass(frozen=True, slots=True)
class ListingRules:
    """Globs and switches that decide which files of a listing belong to a source.

    In a glob ``*`` stands for any characters of a name, ``**`` for any number of folders. Case
    matters. A glob covers the whole path below the root; one of ``exclude`` that matches a folder
    excludes all files below it.

    >>> rules = ListingRules(include=("**/*.md",), exclude=("drafts/",))
    >>> rules.refusal("guide/a.md"), rules.refusal("drafts/2026/a.md")
    (None, 'one of exclude matches it, or a folder above it')

    Raises:
        ValueError: a glob is wrong; with the remedy.
    """

    include: tuple[str, ...] = ()  #: at least one must match; empty: no condition
    exclude: tuple[str, ...] = ()  #: none may match
    hidden: bool = False  #: whether names that begin with a dot belong, too
    follow_symlinks: bool = False  #: whether links that stay below the root are followed
    skipped_extensions: frozenset[str] = SKIPPED_EXTENSIONS  #: lower case, without the dot
    _included: re.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _excluded: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_included", _compiled(self.include, r"\Z"))
        object.__setattr__(self, "_excluded", _compiled(self.exclude, r"(?:/|\Z)"))

    def skip(self, relative: str) -> Skip | None:
        """Return the reason to leave out a file, by its path below the root, or None."""
        if not self.hidden and _is_hidden(relative):
            return Skip.HIDDEN
        _, dot, extension = relative.rpartition(".")
        if dot and extension.lower() in self.skipped_extensions:
            return Skip.TYPE
        if self._included is not None and not self._included.match(relative):
            return Skip.NOT_INCLUDED
        if self._excluded is not None and self._excluded.match(relative):
            return Skip.EXCLUDED
        return None

    def skip_folder(self, relative: str) -> Skip | None:
        """Return the reason not to enter a folder, by its path below the root, or None."""
        if not self.hidden and _is_hidden(relative):
            return Skip.HIDDEN
        if self._excluded is not None and self._excluded.match(f"{relative}/"):
            return Skip.EXCLUDED
        return None

    def refusal(self, relative: str) -> str | None:
        """Return the reason why a file does not belong to the source, or None if it does."""
        skip = self.skip(relative)
        if skip is Skip.TYPE:
            return f"files of type .{relative.rpartition('.')[2].lower()} are skipped"
        return None if skip is None else _REFUSALS[skip]

    def fingerprint_parts(self) -> list[object]:
        """Return the settings that decide about a file, for a digest by ``json.dumps``."""
        return [
            sorted(set(self.include)),
            sorted(set(self.exclude)),
            self.hidden,
            self.follow_symlinks,
            sorted(self.skipped_extensions),
        ]


def _is_hidden(relative: str) -> bool:
    """Whether a name in a path begins with a dot; ``.`` and ``..`` in keys of stores do not."""
    return ("/." in relative or relative[:1] == ".") and _HIDDEN.search(relative) is not None


# Globs as regular expressions. Groups are atomic: of the places where a part of a glob may match,
# the first one is always right, so that no name of a file makes a glob try the others.


def _compiled(globs: Iterable[str], end: str) -> re.Pattern[str] | None:
    found = [_expression(glob, end) for glob in globs]
    return re.compile("|".join(found), re.DOTALL) if found else None


def _expression(glob: str, end: str) -> str:
    """Return the expression of a glob, to be matched from the start of a path."""
    parts = _names(glob)
    groups: list[list[str]] = [[]]
    for part in parts:
        if part == _DEPTH:
            groups.append([])
        else:
            groups[-1].append(_name_expression(part))
    first, *others = ["/".join(group) for group in groups]
    if not others:
        return first + end
    *middle, last = others
    text = f"{first}/" if first else ""
    text += "".join(f"(?>(?:[^/]*+/)*?{group}/)" for group in middle if group)
    return text + (f"(?:[^/]*+/)*?{last}{end}" if last else r".*+\Z")


def _name_expression(name: str) -> str:
    """Return the expression of one name of a glob, up to the slash or the end after it."""
    first, *others = map(re.escape, name.split("*"))
    if not others:
        return first
    *middle, last = others
    found = "".join(f"(?>[^/]*?{text})" for text in middle if text)
    return rf"(?>{first}{found}[^/]*{last}(?=/|\Z))"


def _names(glob: str) -> list[str]:
    """Return the names of a glob.

    Raises:
        ValueError: it is wrong; with the remedy.
    """
    if not glob:
        raise ValueError("an empty glob matches nothing: write ** for all files")
    if glob.startswith("/"):
        raise ValueError(f"{glob!r} begins with a slash: write globs relative to the root")
    if found := _UNKNOWN.search(glob):
        raise ValueError(
            f"{glob!r} has the character {found[0]!r}: a glob has *, ** and plain characters;"
            " write * in its place, or one glob for each alternative"
        )
    names = glob.split("/")
    if names[-1] == "":
        names[-1] = _DEPTH
    for name in names:
        if name in ("", ".", ".."):
            raise ValueError(
                f"{glob!r} has an empty name, . or .. in it: write the path below the root"
            )
        if _DEPTH in name and name != _DEPTH:
            raise ValueError(
                f"{glob!r} has ** within a name: write ** alone between slashes, or * for a part"
                " of a name"
            )
    return names

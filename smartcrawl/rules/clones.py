"""Clones: equal content is searched under one address, the original (R4-13 to R4-16)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

MIN_CLONE_TEXT: Final = 200  #: characters; shorter texts may be equal by chance
#: Pages with one content; so many are not equal by chance, however short their text is.
MIN_CLONE_PAGES: Final = 20

NONE, OWN, KEPT = 0, 1, 2  #: entry in the index: none, its own, one from before it was lost


class Member(NamedTuple):
    """One page of a group with equal content."""

    no: int
    lost: bool  #: found lost by its last runs
    fresh: bool  #: it got the content in this run
    entry: int  #: NONE, OWN or KEPT
    depth: int
    length: int  #: characters of its URL
    first_run: int
    id: bytes
    unreachable: bool  #: an orphan whose look before its removal failed
    answered: bool  #: reached in this run, and its last answer was its content


class Place(NamedTuple):
    """A page's place in its group: the number of its original, or None, and its entry."""

    duplicate_of: int | None
    entry: int


def _rank(member: Member, *, keeps_fresh: bool) -> tuple[object, ...]:
    standing = member.entry == OWN and (keeps_fresh or not member.fresh)
    return (
        member.lost,
        not standing,
        member.fresh,
        member.entry == NONE if member.lost else False,
        member.depth,
        member.length,
        member.first_run,
        member.id,
    )


def decide_clone_places(members: Iterable[Member], *, midway: bool) -> dict[int, Place]:
    """Return the place of each member of one group.

    Living members come before lost ones, then the present original, then members that had the
    content before this run, then depth, length of the URL, first run, id: never the
    order of arrival. A lost page is no clone: its entry stays, and it is the original only where
    no living member is. ``midway``: while a run goes on, a living original stays the original, so
    that search never finds two. At its end, an original that no link leads to and that cannot be
    reached hands over to a page that has answered. It does not take the place back by itself, and
    no other page takes it in the same run.

    Source: M-23, R4-14 to R4-16; docs/decisions.md, "Clones"; ADR 94.
    """
    group = list(members)
    if not group:
        return {}
    # An orphan may have handed over to a page that got the content in this run.
    keeps_fresh = midway or any(member.unreachable and not member.lost for member in group)
    group.sort(key=lambda member: _rank(member, keeps_fresh=keeps_fresh))
    first = group[0]
    if first.unreachable and not midway:
        first = next((member for member in group if member.answered and not member.lost), first)
    found = {first.no: Place(None, OWN)}
    for member in group:
        if member.no == first.no:
            continue
        if member.lost:
            found[member.no] = Place(None, NONE if member.entry == NONE else KEPT)
        else:
            found[member.no] = Place(first.no, NONE)
    return found

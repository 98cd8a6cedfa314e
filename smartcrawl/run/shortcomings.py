"""What kept a run from seeing everything, as far as it is known before its end."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Self

from smartcrawl.model.redaction import redacted
from smartcrawl.rules.traps import Trap

logger = logging.getLogger(__name__)

_TRAPS = frozenset(Trap)
_SHOWN = 200  #: characters of an address


@dataclass(slots=True)
class Shortcomings:
    """Reasons such as ``host_down: a.example``, and addresses that were left alone, counted."""

    reasons: list[str] = field(default_factory=list)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)  #: how many, and the first
    changed: bool = False  #: since it was written last
    _told: dict[str, int] = field(default_factory=dict)  #: of those refused, in earlier news

    def add(self, reason: str) -> None:
        """Note a reason, once."""
        reason = redacted(reason)
        if reason not in self.reasons:
            self.reasons.append(reason)
            self.changed = True

    def count(self, kind: str, url: str) -> None:
        """Count an address at which something was left out, such as ``too_many_links``."""
        count, first = self.refused.get(kind, (0, redacted(url)[:_SHOWN]))
        self.refused[kind] = count + 1, first
        self.changed = True

    def refuse(self, trap: Trap, url: str) -> None:
        """Count an address that was not followed, and tell people of the first of its kind."""
        self.count(trap, url)
        count, first = self.refused[trap]
        if count == 1:
            logger.warning("not followed: %s (%s: %s)", first, trap, trap.words)

    def told(self) -> tuple[str, ...]:
        """Return everything as reasons.

        >>> shortcomings = Shortcomings()
        >>> shortcomings.add("max_pages")
        >>> shortcomings.refused["calendar"] = (2, "http://a.example/cal/2031")
        >>> shortcomings.told()
        ('max_pages', 'calendar: 2 addresses, such as http://a.example/cal/2031')
        """
        return (
            *self.reasons,
            *(_told(kind, count, first) for kind, (count, first) in self.refused.items()),
        )

    def dumps(self) -> str:
        """Return it as the registry keeps it while the run is open."""
        return json.dumps({"reasons": self.reasons, "refused": self.refused})

    def news(self) -> str:
        """Return what came since the last call, in the manner of ``dumps`` (see ``merged``)."""
        refused = {
            kind: (count - self._told.get(kind, 0), first)
            for kind, (count, first) in self.refused.items()
            if count > self._told.get(kind, 0)
        }
        self._told = {kind: count for kind, (count, _) in self.refused.items()}
        return json.dumps({"reasons": self.reasons, "refused": refused})

    @classmethod
    def loads(cls, text: str) -> Self:
        """Return what ``dumps`` returned."""
        stored = json.loads(text)
        refused = {
            trap: (count, first) for trap, (count, first) in stored.get("refused", {}).items()
        }
        return cls(list(stored.get("reasons", [])), refused)


def merged(stored: str, news: str) -> str:
    """Return what several workers found, as one of them would have kept it.

    >>> merged('{"refused": {"calendar": [2, "http://a.example/1"]}}',
    ...        '{"reasons": ["max_pages"], "refused": {"calendar": [1, "http://a.example/9"]}}')
    '{"reasons": ["max_pages"], "refused": {"calendar": [3, "http://a.example/1"]}}'
    """
    shortcomings, other = Shortcomings.loads(stored), Shortcomings.loads(news)
    for reason in other.reasons:
        shortcomings.add(reason)
    for kind, (count, first) in other.refused.items():
        before, shown = shortcomings.refused.get(kind, (0, first))
        shortcomings.refused[kind] = before + count, shown
    return shortcomings.dumps()


def _told(kind: str, count: int, first: str) -> str:
    """Return one kind as a reason.

    >>> _told("calendar", 1, "http://a.example/"), _told("too_many_links", 1, "http://a.example/")
    ('calendar: 1 address, http://a.example/', 'too_many_links: http://a.example/')
    >>> _told("too_many_links", 3, "http://a.example/")
    'too_many_links: http://a.example/ and 2 more'
    """
    if kind not in _TRAPS:
        return f"{kind}: {first}" if count == 1 else f"{kind}: {first} and {count - 1:,} more"
    counted = "1 address," if count == 1 else f"{count:,} addresses, such as"
    return f"{kind}: {counted} {first}"

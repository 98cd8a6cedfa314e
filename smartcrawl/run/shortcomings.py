"""The reasons why a run did not see everything, collected before its end."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import Final, Self

from smartcrawl.model.redaction import redacted_text
from smartcrawl.registry.runs.run_results import UNREAD
from smartcrawl.rules.rendering import data_reason
from smartcrawl.rules.seal import DEPTH_LEFT
from smartcrawl.rules.traps import ENDLESS, MOST_ALIKE, Trap, chain_of_url, chain_pattern

logger = logging.getLogger(__name__)

_TRAPS = frozenset(Trap)
_SHOWN = 200  #: characters of an address
FAULTY = "faulty_parts"  #: word of the note about documents that lack parts
#: Beginnings of the kinds that are notes: what they count makes no run incomplete.
_NOTES = (ENDLESS, FAULTY, UNREAD)
PAGES_WAIT: Final = "render"  #: kind of pages that are not rendered in this run
DATA_MISSING: Final = "data"  #: kind of requests of pages without an answer; host and reason follow


@dataclass(slots=True)
class Shortcomings:
    """Reasons such as ``host_down: a.example``, and counts of addresses that were not followed."""

    reasons: list[str] = field(default_factory=list)
    #: count and first address, by kind
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    changed: bool = False  #: whether it has news since it was written last
    #: addresses that have no visit because the user's own code failed, in this process
    without_visit: set[str] = field(default_factory=set)
    is_empty: bool = False  #: a listing was whole, and its lack of items is believed: that is none
    _reported: dict[str, int] = field(default_factory=dict)  #: counts in earlier news, by kind

    def add(self, reason: str) -> None:
        """Note a reason, once."""
        reason = redacted_text(reason)
        if reason not in self.reasons:
            self.reasons.append(reason)
            self.changed = True

    def fail_code(self, place: str, url: str) -> None:
        """Note that code of the user's own failed at a place, and that a page has no visit so."""
        self.add(f"code_failed: {place}")
        self.without_visit.add(redacted_text(url))

    def count(self, kind: str, url: str) -> None:
        """Count an address where a limit left links out; ``kind`` is such as ``too_many_links``.

        The first address counts once: a run that is resumed meets it again.
        """
        shown = redacted_text(url)[:_SHOWN]
        count, first = self.refused.get(kind, (0, shown))
        if count and shown == first:
            return
        self.refused[kind] = count + 1, first
        self.changed = True

    def refuse(self, trap: Trap, url: str) -> None:
        """Count an address that was not followed, and log the first of its kind."""
        if trap not in self.refused:
            shown = redacted_text(url)[:_SHOWN]
            logger.warning("not followed: %s (%s: %s)", shown, trap, trap.words)
        self.count(trap, url)

    def leave_chain(self, url: str) -> None:
        """Count an address of a chain that has ended, and log the first of the chain.

        That is a note, and no reason: the rest of a chain brings no news.
        """
        kind = redacted_text(f"{ENDLESS} {chain_of_url(url)}")
        if kind not in self.refused:
            logger.warning(
                "not followed: %s (%s: %d pages before it have the same text)",
                redacted_text(url)[:_SHOWN],
                ENDLESS,
                MOST_ALIKE,
            )
        self.count(kind, url)

    def leave_unread(self, kind: str, count: int) -> None:
        """Note how many documents of a kind, such as ``.doc``, a listing left out.

        >>> shortcomings = Shortcomings()
        >>> shortcomings.leave_unread(".vsd", 5)
        >>> shortcomings.leave_unread(".doc", 9)
        >>> shortcomings.as_notes()
        ('unread_files: 14 files, 9 .doc, 5 .vsd',)
        """
        self.refused[f"{UNREAD} {kind}"] = count, ""
        self.changed = True

    def as_notes(self) -> tuple[str, ...]:
        """Return the notes about what was left out; the run may be complete.

        >>> shortcomings = Shortcomings()
        >>> shortcomings.count("faulty_parts", "http://a.example/a.docx")
        >>> shortcomings.as_notes()
        ('faulty_parts: 1 document, http://a.example/a.docx',)
        """
        notes = [
            f"{ENDLESS}: {_addresses(count)} {first},"
            f" excluded_patterns = ['{chain_pattern(first)}']"
            for kind, (count, first) in self.refused.items()
            if kind.startswith(ENDLESS)
        ]
        if FAULTY in self.refused:
            count, first = self.refused[FAULTY]
            notes.append(f"{FAULTY}: {_addresses(count, 'document', 'documents')} {first}")
        kinds = {
            kind.removeprefix(f"{UNREAD} "): count
            for kind, (count, _) in self.refused.items()
            if kind.startswith(UNREAD)
        }
        if kinds:
            total = sum(kinds.values())
            often = sorted(kinds, key=lambda kind: (-kinds[kind], kind))
            parts = [f"{kinds[kind]:,} {kind}" for kind in often]
            files = "1 file" if total == 1 else f"{total:,} files"
            notes.append(f"{UNREAD}: {files}, {', '.join(parts)}")
        return tuple(notes)

    def as_reasons(self) -> tuple[str, ...]:
        """Return the reasons, and the counted addresses as further ones.

        >>> shortcomings = Shortcomings()
        >>> shortcomings.add("max_pages")
        >>> shortcomings.refused["calendar"] = (2, "http://a.example/cal/2031")
        >>> shortcomings.as_reasons()
        ('max_pages', 'calendar: 2 addresses, such as http://a.example/cal/2031')
        """
        return (
            *self.reasons,
            *(
                _reason(kind, count, first)
                for kind, (count, first) in self.refused.items()
                if not kind.startswith(_NOTES)
            ),
        )

    def dumps(self) -> str:
        """Return the JSON that the registry stores while the run is open."""
        return json.dumps({"reasons": self.reasons, "refused": self.refused})

    def news(self) -> str:
        """Return the reasons, and the counts since the last call, as JSON.

        See ``merged_run_shortcomings``.
        """
        refused = {
            kind: (count - self._reported.get(kind, 0), first)
            for kind, (count, first) in self.refused.items()
            if count > self._reported.get(kind, 0)
        }
        self._reported = {kind: count for kind, (count, _) in self.refused.items()}
        return json.dumps({"reasons": self.reasons, "refused": refused})

    @classmethod
    def loads(cls, text: str) -> Self:
        """Read the JSON of ``dumps``."""
        stored = json.loads(text)
        refused = {
            trap: (count, first) for trap, (count, first) in stored.get("refused", {}).items()
        }
        return cls(list(stored.get("reasons", [])), refused)


def merged_run_shortcomings(stored: str, news: str) -> str:
    """Add the news of one worker to the stored JSON of all workers.

    >>> merged_run_shortcomings('{"refused": {"calendar": [2, "http://a.example/1"]}}',
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


def _reason(kind: str, count: int, first: str) -> str:
    """Return the counted addresses of one kind as a reason.

    >>> _reason("calendar", 1, "http://a.example/"), _reason("too_many_links", 1, "http://a.example/")
    ('calendar: 1 address, http://a.example/', 'too_many_links: http://a.example/')
    >>> _reason("too_many_links", 3, "http://a.example/")
    'too_many_links: http://a.example/ and 2 more'
    >>> _reason("render", 3, "http://a.example/"), _reason("data h no answer", 1, "http://h/a")
    ('render: 3 pages wait', 'data: 1 request to h: no answer')
    """
    if kind == PAGES_WAIT:
        return f"{kind}: {count:,} {'page waits' if count == 1 else 'pages wait'}"
    if kind.startswith(f"{DATA_MISSING} "):
        word, host, why = kind.split(" ", 2)
        return f"{word}: {data_reason(host, why, count)}"
    if kind not in _TRAPS and not kind.startswith(f"{DEPTH_LEFT}:"):
        return f"{kind}: {first}" if count == 1 else f"{kind}: {first} and {count - 1:,} more"
    return f"{kind}: {_addresses(count)} {first}"


def _addresses(count: int, one: str = "address", several: str = "addresses") -> str:
    return f"1 {one}," if count == 1 else f"{count:,} {several}, such as"

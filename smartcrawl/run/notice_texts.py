"""The words of a notice: a title and a text for people, and JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from smartcrawl.model.program import OURS
from smartcrawl.model.times import iso_time
from smartcrawl.reports.text import report_noun, report_time_span
from smartcrawl.rules.notices import Event

_MOST_LINES: Final = 25  #: addresses of a mail; the JSON has more


def notice_title(event: Event, source: str, data: Mapping[str, Any]) -> str:
    """Return a line for the subject of a mail."""
    match event:
        case Event.RUN_INCOMPLETE:
            return f"{source}: run {data['run']} did not see everything"
        case Event.REMOVAL_WAITING:
            return f"{source}: {report_noun(data['waiting'], 'removal')} waiting for approval"
        case Event.CHANGES:
            return f"{source}: {_counts(data['counts'])}"
        case Event.SOURCE_STALE:
            return f"{source} is stale: not seen whole for {report_time_span(data['ageSeconds'])}"
        case Event.SOURCE_RECOVERED:
            return f"{source} is not stale any more"
        case Event.TEST:
            return "A test of smartcrawl notify"


def notice_text(event: Event, source: str, data: Mapping[str, Any]) -> str:
    """Return the text of a mail, with the command that helps."""
    lines = [f"{notice_title(event, source, data)}.", ""]
    match event:
        case Event.RUN_INCOMPLETE:
            lines += [f"- {reason}" for reason in data["reasons"]]
            lines += ["", f"More: {OURS} runs --source {source}"]
        case Event.REMOVAL_WAITING:
            lines += [f"To list and approve them: {OURS} orphans --source {source}"]
        case Event.CHANGES:
            pages = data["pages"][:_MOST_LINES]
            lines += [_page(page) for page in pages]
            left = data["more"] + len(data["pages"]) - len(pages)
            if left:
                lines.append(f"and {left:,} more")
            lines += ["", f"All of them: {OURS} changes --source {source}"]
        case Event.SOURCE_STALE:
            lines += [f"Why: {OURS} status --source {source}"]
        case Event.SOURCE_RECOVERED | Event.TEST:
            pass
    return "\n".join(lines).rstrip() + "\n"


def notice_body(event: Event, source: str, data: Mapping[str, Any], at: int) -> bytes:
    """Return the JSON of a webhook: type, timestamp and data; ``at``: Unix seconds."""
    found = {"type": str(event), "timestamp": iso_time(at), "data": {"source": source, **data}}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {kind}" for kind, number in counts.items())


def _page(page: Mapping[str, Any]) -> str:
    share = page.get("share")
    amount = "" if share is None else f" ({100 * share:.0f} %)"
    former = f", formerly {page['formerUrl']}" if page.get("formerUrl") else ""
    return f"{page['kind']:<10} {page['url']}{amount}{former}"

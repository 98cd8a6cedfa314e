"""The story of a record in one sentence: what is stored, its last visit, and what comes next."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from smartcrawl.reports.text import report_time_span
from smartcrawl.rules.model import Fault, Outcome, Standing, Status

_HELD: Final = Standing.HELD.name.lower()
_LINKS: Final = Standing.LINKS.name.lower()
#: Why no content is stored, by the outcome of the last visit that was decided about.
_LACKS: Final = {
    Outcome.NOT_ACCEPTABLE: "it is not to be indexed, or has nothing to index",
    Outcome.ALIAS: "its canonical link names another page, which is searchable in its place",
    Outcome.REDIRECT: "it leads to another address",
    Outcome.NOT_FOUND: "its server does not have it",
    Outcome.SOFT_404: "it says itself that nothing was found",
    Outcome.HTTP_ERROR: "its server did not hand it out",
    Outcome.TRANSIENT: "its server could not answer",
    Outcome.BAD_HEADER: "its server's answer breaks the rules of HTTP",
    Outcome.UNREACHABLE: "its server gave no whole answer",
    Outcome.UNPROCESSABLE: "its file could not be read",
    Outcome.EXCLUDED: "robots.txt, the scope or an order excludes it",
}


def story_sentence(story: Mapping[str, Any], now: int) -> str:
    """Return the story of a record (``Stories.story``) in one sentence; ``now``: Unix seconds.

    >>> record = {"status": "Indexed", "lostCount": 0, "lastChecked": "2025-06-15T13:00:00Z"}
    >>> record |= {"lastStatusCode": 304, "errorMessage": None, "lastOutcome": "unchanged"}
    >>> story = {"record": record, "standing": "held", "decision": {"text": "nothing changed"}}
    >>> story |= {"proposal": None, "textLength": 9}
    >>> story |= {"nextVisit": {"dueAt": None, "text": "in the next run that reaches it"}}
    >>> story_sentence(story, 1_750_000_000)
    'Stored; last visit 2 h ago answered 304; next visit in the next run that reaches it.'
    """
    record = story["record"]
    parts = [_standing(story), _last_visit(record, now)]
    proposal = story["proposal"]
    if proposal is not None and proposal["withheld"]:
        parts.append(f"its removal ({proposal['rule']}) waits for approval")
    parts.append(_next_visit(story["nextVisit"], now))
    return f"{'; '.join(filter(None, parts))}."


def _standing(story: Mapping[str, Any]) -> str:
    record, standing = story["record"], story["standing"]
    if standing == _HELD:
        if record["lostCount"]:
            return "Stored: the last good copy stays searchable"
        empty = story["textLength"] == 0
        return "Stored without text, so that no search finds it by its text" if empty else "Stored"
    if standing == _LINKS:
        return f"Not searchable: {_reason(story)}; its links are stored"
    if record["status"] == Status.PENDING.word and record["lastOutcome"] is None:
        return "Not searchable: not visited yet"
    return f"Not searchable: {_reason(story)}"


def _reason(story: Mapping[str, Any]) -> str:
    """Return why no content is stored; the decision itself where no outcome says it."""
    decision = story["decision"]
    outcome = decision["outcome"]
    if outcome is None or story["record"]["lastStatusCode"] == Fault.NO_BROWSER:
        return str(decision["text"])
    return _LACKS.get(Outcome(outcome), str(decision["text"]))


def _last_visit(record: Mapping[str, Any], now: int) -> str | None:
    if record["lastChecked"] is None:
        return None
    ago = f"last visit {report_time_span(now - _seconds(record['lastChecked']))} ago"
    status = record["lastStatusCode"]
    if status is not None and status < Fault.BAD_RESPONSE:
        return f"{ago} answered {status}"
    if record["errorMessage"]:
        return f"{ago} failed ({record['errorMessage']})"
    return ago


def _next_visit(found: Mapping[str, Any], now: int) -> str:
    text = str(found["text"])
    if text.startswith("none"):
        reason = text.removeprefix("none").lstrip(":, ")
        return f"no next visit: {reason}" if ":" in text else f"no next visit, {reason}"
    due = found["dueAt"]
    if due is not None and (wait := _seconds(due) - now) > 0:
        return f"next visit {text}, due in {report_time_span(wait)}"
    return f"next visit {text}"


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp())

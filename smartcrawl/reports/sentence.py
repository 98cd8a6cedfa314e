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
    Outcome.ALIAS: "its canonical link names another page",
    Outcome.REDIRECT: "it redirects to another address",
    Outcome.NOT_FOUND: "its server does not have it",
    Outcome.SOFT_404: "it says itself that nothing was found",
    Outcome.HTTP_ERROR: "its server did not hand it out",
    Outcome.TRANSIENT: "its server could not answer",
    Outcome.BAD_HEADER: "its server's answer breaks the rules of HTTP",
    Outcome.UNREACHABLE: "its server gave no whole answer",
    Outcome.UNPROCESSABLE: "its content could not be read",
    Outcome.EXCLUDED: "robots.txt, the scope or an order excludes it",
}
#: The same by faults and statuses that say more than their outcome.
_SAYS: Final[Mapping[int, str]] = {
    401: "it asks for a login",
    407: "a proxy asks for a login",
    Fault.TOO_LARGE: "it is larger than DOWNLOAD_MAXSIZE permits",
    Fault.ROBOTS_UNKNOWN: "it is not requested while its robots.txt cannot be read",
    Fault.ADDRESS_REFUSED: "the network of its host is not permitted",
    Fault.HOST_DOWN: "its host gave no answer before it",
    Fault.NOT_LOGGED_IN: "the login of its source failed",
    Fault.CHALLENGE: "a page that asks whether a person reads it came in its place",
    Fault.LOGIN: "a login form came in its place",
}
_UNINDEXED: Final = "not indexed: "  #: begins the message of a page that has nothing to index
_NOINDEX: Final = "noindex"


def story_sentence(story: Mapping[str, Any], now: int) -> str:
    """Return the story of a record (``Stories.story``) in one sentence; ``now``: Unix seconds.

    >>> record = {"status": "Indexed", "lostCount": 0, "lastChecked": "2025-06-15T13:00:00Z"}
    >>> record |= {"lastStatusCode": 304, "errorMessage": None, "lastOutcome": "unchanged"}
    >>> story = {"record": record, "standing": "held", "clones": {"original": None}}
    >>> story |= {"decision": {"outcome": "same"}, "proposal": None, "textLength": 9}
    >>> story |= {"nextVisit": {"dueAt": None, "text": "in the next run that reaches it"}}
    >>> story_sentence(story, 1_750_000_000)
    'Stored; last visit 2 h ago answered 304; next visit in the next run that reaches it.'
    """
    parts = [_standing(story), _last_visit(story, now)]
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
        original = story["clones"]["original"]
        if original is not None:
            return f"Stored as a clone: a search shows {original} in its place"
        empty = story["textLength"] == 0
        return "Stored without text, so that no search finds it by its text" if empty else "Stored"
    if standing == _LINKS:
        return f"Not searchable: {_reason(story)}; its links are stored"
    if record["status"] == Status.PENDING.word and record["lastOutcome"] is None:
        return "Not searchable: not visited yet"
    return f"Not searchable: {_reason(story)}"


def _reason(story: Mapping[str, Any]) -> str:
    """Return why no content is stored; the decision itself where no outcome says it."""
    decision, record = story["decision"], story["record"]
    outcome, status = decision["outcome"], record["lastStatusCode"]
    if outcome is None or status == Fault.NO_BROWSER:
        return str(decision["text"])
    message = str(record["errorMessage"] or "")
    match Outcome(outcome):
        case Outcome.EXCLUDED:
            return _exclusion(story) or message or _LACKS[Outcome.EXCLUDED]
        case Outcome.NOT_ACCEPTABLE if message.startswith(_UNINDEXED):
            why = message.removeprefix(_UNINDEXED)
            return "it asks not to be indexed (noindex)" if why == _NOINDEX else message
        case Outcome.ALIAS if story["canonical"]:
            target = story["canonical"]
            return f"its canonical link names {target['url']}{_found(target['status'])}"
        case Outcome.REDIRECT if story["redirects"]:
            return f"it redirects to {story['redirects'][-1]}{_target(story)}"
        case known:
            return _SAYS.get(status) or _LACKS.get(known, str(decision["text"]))


def _exclusion(story: Mapping[str, Any]) -> str:
    """Return what excludes a page today; "": nothing does."""
    scope, robots = story["scope"], story["robots"]
    if scope["allowed"] is False:
        return str(scope["why"])
    if robots is not None and robots["allowed"] is False and robots["obeyed"]:
        return f"robots.txt forbids it (line {robots['line']}, for {robots['agent']})"
    return ""


def _target(story: Mapping[str, Any]) -> str:
    """Return the clause that says where a redirect leads: out of scope, or to a searchable page.

    "": the record of its target is not there, or is neither.
    """
    for link in story["linksOut"]["shown"]:
        if link["url"] == story["redirects"][-1]:
            return ", which is out of scope" if link["inScope"] is False else _found(link["status"])
    return ""


def _found(status: str | None) -> str:
    return ", which is searchable in its place" if status == Status.INDEXED.word else ""


def _last_visit(story: Mapping[str, Any], now: int) -> str | None:
    record = story["record"]
    if record["lastChecked"] is None:
        return None
    span = report_time_span(now - _seconds(record["lastChecked"]))
    status, message = record["lastStatusCode"], record["errorMessage"]
    if story["decision"]["outcome"] == Outcome.EXCLUDED:
        return f"last met {span} ago, and not requested"
    ago = f"last visit {span} ago"
    if status is not None and status < Fault.BAD_RESPONSE:
        return f"{ago} answered {status}"
    if not message:
        return ago
    return f"{ago} failed" if status == Fault.TOO_LARGE else f"{ago} failed ({message})"


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

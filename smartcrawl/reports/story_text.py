"""The story of a record in words: those of ``smartcrawl why``, for terminals and pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from smartcrawl.model.program import program_name
from smartcrawl.reports.changes_text import how_much_changed
from smartcrawl.reports.text import report_noun
from smartcrawl.reports.vectors import VectorCounts, vector_counts_lines
from smartcrawl.reports.why import SHOWN, STORED
from smartcrawl.rules.model import Fault, Standing

_PARTS: Final = 5  #: parts of a listing that are named
#: Evidence of a removal in words.
_EVIDENCE: Final = {
    "why": "{}", "status": "status {}", "completeRuns": "complete runs absent {}",
    "lostCount": "lost {}", "goneCount": "gone {}", "since": "since {}",
    "lastReachedRun": "last reached by run {}", "probe": "last check {}", "target": "now {}",
    "hops": "redirects {}", "canonical": "canonical {}",
}  # fmt: skip


def story_facts(one: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the facts of a record (``Stories.story``), each with its label.

    Its links and its events are not among them. An empty label: the fact before it has one more.
    """
    for label, text in _facts(one):
        if text:
            yield label, text


def _facts(one: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    record = one["record"]
    answered = _answer(", answered", record["lastStatusCode"])
    state = f"{record['status']}, {record['lastOutcome'] or 'not visited'}{answered}"
    yield "state", f"{state}; {STORED[Standing[one['standing'].upper()]]}"
    yield "decided", _in_run(one["decision"]["text"], one["decision"]["run"])
    if one["unlisted"]:
        lacking = unlisted_story_text(one["unlisted"])
        yield "listing", f"not complete in run {one['unlisted']['run']}: {lacking}"
    yield "message", record["errorMessage"]
    if one["textLength"] == 0:
        yield "text", "none, so a search cannot find the page by its text"
    yield "counts", _counts(record, one["standing"])
    yield "data", one["request"]["confirmedBy"]
    yield "request", _request_text(one["request"])
    yield from _spellings(one["spellings"])
    for place, text in enumerate(one["request"]["distrusted"]):
        yield "" if place else "distrusted", text
    yield "robots", story_robots_text(one["robots"])
    if one["scope"]["allowed"] is not True:
        yield "scope", one["scope"]["why"]
    yield "depth", _depth_text(one["scope"])
    if one["canonical"]:
        known_as = one["canonical"]["status"] or "not known"
        yield "canonical", f"{one['canonical']['url']} ({known_as})"
    if one["redirects"]:
        yield "redirects", " -> ".join(one["redirects"])
    yield "clone of", one["clones"]["original"]
    others = one["clones"]["others"]
    yield "clones", ", ".join(others[:SHOWN]) if others else None
    yield "pinned", one["pinnedAt"]
    yield "proposed", _proposal_text(one["proposal"])
    for place, way in enumerate(one["removal"]):
        yield "" if place else "removal", _way_text(way)
    if not one["removal"]:
        yield "removal", "nothing stored, so nothing to remove"
    due = one["nextVisit"]["dueAt"]
    yield "next visit", one["nextVisit"]["text"] + (f"; due {due}" if due else "")
    if one["vectors"]:
        yield from vector_counts_lines(VectorCounts.of_data(one["vectors"]))
    for place, file in enumerate(one["pushed"]):
        known = f" as {file['file']}" if file["file"] else ""
        yield "" if place else "pushed", f"{file['status']} in {file['vectorStoreId']}{known}"
    yield "moved from", record["movedFrom"]
    yield "found on", record["discoveredFrom"]


def _spellings(spellings: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the other spellings of an address, and what each answered."""
    for place, url in enumerate(spellings["others"]):
        yield "" if place else "linked as", url
    for place, one in enumerate(spellings["tried"]):
        status, message = one["httpStatusCode"], one["message"]
        answer = f"answered {status}" if status is not None and status < 1000 else message
        if status == 200 and message:
            answer = f"{answer}, {message}"
        run = "" if place else f", in run {spellings['run']}"
        yield "" if place else "tried", f"{one['url']}: {answer or 'no answer'}{run}"


def _in_run(text: str, run: int | None) -> str:
    return f"{text} (run {run})" if run else text


def unlisted_story_text(unlisted: dict[str, Any]) -> str:
    """Format the parts that a listing lacks, and what they mean for the address."""
    parts = unlisted["parts"][:_PARTS]
    more = len(unlisted["parts"]) - len(parts)
    return "; ".join([*parts, *([f"{more:,} more"] if more else []), unlisted["text"]])


def _counts(record: dict[str, Any], standing: str) -> str | None:
    """Format the counts that lead to a removal; a page that is removed has none."""
    if standing == "bare":
        return None
    parts = [
        f"{name} {record[key]}"
        for name, key in (
            ("lost", "lostCount"),
            ("gone", "goneCount"),
            ("complete runs absent", "orphanAge"),
        )
        if record[key]
    ]
    return ", ".join(parts)


def _request_text(request: dict[str, Any]) -> str:
    if not request["conditional"]:
        return f"without validators: {request['why']}"
    if request["dataRequests"]:
        count = report_noun(request["dataRequests"], "data request")
        return f"{count}, with validators where they have some; rendered where an answer differs"
    if not request["headers"]:
        return "none, unless its validator or size in the listing changed"
    return "with " + ", ".join(f"{name}: {value}" for name, value in request["headers"].items())


def story_robots_text(robots: dict[str, Any] | None) -> str | None:
    if robots is None:
        return None
    text = "unknown: no copy is stored"
    if robots["allowed"] is not None:
        text = "allowed" if robots["allowed"] else "disallowed"
        text += f" by the copy of {robots['fetchedAt']}: {_rule_text(robots)}"
    if robots["error"] is not None:
        text += f"; the request at {robots['failedAt']} failed: {robots['error']}"
    unobeyed = "ignored, because obey_robots or ROBOTSTXT_OBEY is off"
    return text if robots["obeyed"] else f"{text}; {unobeyed}"


def _rule_text(robots: dict[str, Any]) -> str:
    """Format the line of a robots.txt that decides."""
    if robots["status"] >= 400:
        return f"status {robots['status']} means there are no rules"
    if not robots["isRobotsTxt"]:
        return "the file is not a robots.txt (perhaps a web page), so there are no rules"
    if robots["rule"] is None:
        return "no rule matches"
    return f"line {robots['line']}, for {robots['agent']}: {robots['rule']!r}"


def _proposal_text(proposal: dict[str, Any] | None) -> str | None:
    if proposal is None:
        return None
    text = f"for removal in run {proposal['run']}: {proposal['rule']}"
    if proposal["heldByFailedLook"]:
        return f"{text}; kept, because the check before removal failed ({proposal['probe']})"
    if proposal["withheld"]:
        return (
            f"{text}; waiting for approval (withheld by the guard). To approve: "
            f"{proposal['release']} or more"
        )
    return text


def _way_text(way: dict[str, Any]) -> str:
    text = f"{way['text']} ({way['rule']})"
    text = text if way["underWay"] else f"after {text}"
    if way["notBefore"]:
        text += f", not before {way['notBefore']}"
    elif way["minAgeSeconds"]:
        text += f", and at least {way['minAgeSeconds']} s after the first"
    return text


def _depth_text(scope: dict[str, Any]) -> str | None:
    if scope["depth"] is None:
        return None
    most = "no limit" if scope["maxDepth"] is None else f"at most {scope['maxDepth']}"
    return f"{report_noun(scope['depth'], 'link')} from a seed, {most}"


def story_link_text(link: dict[str, Any]) -> str:
    """Return the state of the target of a link, in brackets."""
    if link["inScope"] is False:
        return " (out of scope)"
    nofollow = ", nofollow" if link["nofollow"] else ""
    return f" ({link['status'] or 'not known'}{nofollow})"


def story_modification_lines(modifications: dict[str, Any]) -> list[str]:
    """Return a line for each modification of a page, newest first, and one for those left out."""
    shown = modifications["shown"][:SHOWN]
    lines = []
    for one in shown:
        how_much = how_much_changed(one)
        lines.append(f"{one['at']}  run {one['run']}{f': {how_much}' if how_much else ''}")
    more = modifications["count"] - len(shown)
    return [*lines, *([f"{more:,} more before"] if more else [])]


def story_event_text(event: dict[str, Any]) -> str:
    """Return an event of a record on one line, with its time, run and evidence."""
    return f"{event['at']}  run {event['run']}: {story_event_words(event)}"


def story_event_words(event: dict[str, Any]) -> str:
    """Return an event of a record with its evidence."""
    text = str(event["event"])
    if event["event"] == "removed":
        text += f", {event['rule']}: {_found(event['found'])}"
        if event["restorable"]:
            text += f"; to bring it back: {program_name()} undo {event['run']}"
        elif event["undoneAt"]:
            text += f"; undone {event['undoneAt']}"
        return text
    if event["event"] == "not extracted again":
        return f"{text}: {event['detail']}"
    if "status" in event:
        text += f", {event['status']}, {event['lastOutcome']}"
        text += _answer("", event["httpStatusCode"])
    return text


def _answer(before: str, status: int | None) -> str:
    """Return the status of a visit, to be appended: that of an answer, or the code of a fault.

    >>> _answer(", answered", 404), _answer("", 1107), _answer("", None)
    (', answered 404', ', code 1107', '')
    """
    if not status:
        return ""
    return f"{before} {status}" if status < Fault.BAD_RESPONSE else f", code {status}"


def _found(found: dict[str, Any]) -> str:
    """Format the evidence of a removal; numbers of records are for JSON alone.

    >>> _found({"why": "not in the listing", "lastReachedRun": 2, "targetNo": 22})
    'not in the listing, last reached by run 2'
    """
    return ", ".join(
        _EVIDENCE[key].format(value)
        for key, value in found.items()
        if key in _EVIDENCE and value not in (None, 0)
    )

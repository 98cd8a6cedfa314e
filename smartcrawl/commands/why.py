"""``smartcrawl why``: the whole story of one address."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, ClassVar, Final

from rich.markup import escape

from smartcrawl.extract.robots_txt import robots_txt_answers
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.program import program_name
from smartcrawl.model.settings_table import setting_value
from smartcrawl.model.urls import normalize_url
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources, stored_jobs_of_sources
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.text import report_noun
from smartcrawl.reports.vectors import VectorCounts, vector_counts_lines
from smartcrawl.reports.why import SHOWN, Stories
from smartcrawl.sources.fields import declared_web_address
from smartcrawl.terminal.command import RegistryCommand, print_json, single_terminal_argument
from smartcrawl.terminal.output import Output
from smartcrawl.terminal.sources import address_argument, print_wrong_tables

_BEFORE = 13  #: columns of a label
_PARTS = 5  #: parts of a listing that are named
#: Evidence of a removal in words.
_EVIDENCE: Final = {
    "why": "{}", "status": "status {}", "completeRuns": "complete runs absent {}",
    "lostCount": "lost {}", "goneCount": "gone {}", "since": "since {}",
    "lastReachedRun": "last reached by run {}", "probe": "last check {}", "target": "now {}",
    "hops": "redirects {}", "canonical": "canonical {}",
}  # fmt: skip


def print_why_command(story: dict[str, Any]) -> None:
    """Print the answer of ``why``, whose keys the manual lists (docs/cli.md), for people."""
    output = Output()
    if not story["records"] and story["posted"]:
        output.say(f"[bold]{escape(story['url'])}[/] was not visited yet.")
    elif not story["records"]:
        output.say(f"[bold]{escape(story['url'])}[/] is not known (looked for {story['id']}).")
        refused = {one["source"] for one in story["refusedBy"]}
        asking = [name for name in story["inScopeOf"] if name not in refused]
        where = ", ".join(asking or story["inScopeOf"])
        if story["listedBy"]:
            output.say(
                f"It is in the scope of {escape(where)}; a run reads it once the listing "
                "contains it."
            )
        elif where:
            then = "; a run requests it once a page links to it" if asking else ""
            output.say(f"It is in the scope of {escape(where)}{then}.")
        else:
            output.say("No source has it in its scope.")
        for one in story["refusedBy"]:
            output.say(f"{escape(one['source'])} leaves it out: {escape(one['why'])}.")
        for url in story["nearMisses"]:
            output.say(f"Did you mean {escape(url)}?")
    for one in story["posted"]:
        output.say(
            f"Posted at {one['at']} with priority {one['priority']}: the next run of "
            f"{escape(one['source'])} requests it."
        )
    for one in story["unlisted"]:
        output.say(
            f"The listing of {escape(one['source'])} was not complete in run {one['run']}:"
            f" {escape(_unlisted_text(one))}."
        )
    for place, one in enumerate(story["records"]):
        if place:
            output.say()
        _print_record(output, one)


def _spellings(output: Output, spellings: dict[str, Any]) -> None:
    """Print the other spellings of an address, and what each answered."""
    for place, url in enumerate(spellings["others"]):
        _line(output, "" if place else "linked as", url)
    for place, one in enumerate(spellings["tried"]):
        status, message = one["httpStatusCode"], one["message"]
        answer = f"answered {status}" if status is not None and status < 1000 else message
        if status == 200 and message:
            answer = f"{answer}, {message}"
        run = "" if place else f", in run {spellings['run']}"
        _line(output, "" if place else "tried", f"{one['url']}: {answer or 'no answer'}{run}")


def _print_record(output: Output, one: dict[str, Any]) -> None:
    record = one["record"]
    output.say(f"[bold]{escape(record['url'])}[/] in {escape(record['source'])}")
    found = f", answered {record['lastStatusCode']}" if record["lastStatusCode"] else ""
    state = f"{record['status']}, {record['lastOutcome'] or 'not visited'}{found}"
    _line(output, "state", f"{state}; {one['standing']}")
    _line(output, "decided", _in_run(one["decision"]["text"], one["decision"]["run"]))
    if one["unlisted"]:
        lacking = f"not complete in run {one['unlisted']['run']}: {_unlisted_text(one['unlisted'])}"
        _line(output, "listing", lacking)
    _line(output, "message", record["errorMessage"])
    if one["textLength"] == 0:
        _line(output, "text", "none, so a search cannot find the page by its text")
    _line(output, "counts", _counts(record, one["standing"]))
    _line(output, "data", one["request"]["confirmedBy"])
    _line(output, "request", _request_text(one["request"]))
    _spellings(output, one["spellings"])
    for place, text in enumerate(one["request"]["distrusted"]):
        _line(output, "" if place else "distrusted", text)
    _line(output, "robots", _robots_text(one["robots"]))
    if one["scope"]["allowed"] is not True:
        _line(output, "scope", one["scope"]["why"])
    _line(output, "depth", _depth_text(one["scope"]))
    if one["canonical"]:
        known_as = one["canonical"]["status"] or "not known"
        _line(output, "canonical", f"{one['canonical']['url']} ({known_as})")
    if one["redirects"]:
        _line(output, "redirects", " -> ".join(one["redirects"]))
    _line(output, "clone of", one["clones"]["original"])
    others = one["clones"]["others"]
    _line(output, "clones", ", ".join(others[:SHOWN]) if others else None)
    _line(output, "pinned", one["pinnedAt"])
    _line(output, "proposed", _proposal_text(one["proposal"]))
    for place, way in enumerate(one["removal"]):
        _line(output, "" if place else "removal", _way_text(way))
    if not one["removal"]:
        _line(output, "removal", "nothing stored, so nothing to remove")
    due = one["nextVisit"]["dueAt"]
    _line(output, "next visit", one["nextVisit"]["text"] + (f"; due {due}" if due else ""))
    if one["vectors"]:
        for name, text in vector_counts_lines(VectorCounts.of_data(one["vectors"])):
            _line(output, name, text)
    for place, file in enumerate(one["pushed"]):
        known = f" as {file['file']}" if file["file"] else ""
        text = f"{file['status']} in {file['vectorStoreId']}{known}"
        _line(output, "" if place else "pushed", text)
    _line(output, "moved from", record["movedFrom"])
    _line(output, "found on", record["discoveredFrom"])
    _links(output, "links in", one["linksIn"]["count"], one["linksIn"]["shown"])
    shown = [f"{link['url']}{_link_text(link)}" for link in one["linksOut"]["shown"]]
    _links(output, "links out", one["linksOut"]["count"], shown)
    for place, event in enumerate(one["history"]):
        _line(output, "" if place else "history", _event_text(event))


def _line(output: Output, name: str, text: str | None) -> None:
    if text:
        output.say(escape(text), label=f"  [bold]{name:<11}[/]", indent=_BEFORE)


def _links(output: Output, name: str, count: int, shown: list[str]) -> None:
    _line(output, name, str(count) if count <= len(shown) else f"{count}; the first ones:")
    for text in shown:
        _line(output, "", f"  {text}")


def _in_run(text: str, run: int | None) -> str:
    return f"{text} (run {run})" if run else text


def _unlisted_text(unlisted: dict[str, Any]) -> str:
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


def _robots_text(robots: dict[str, Any] | None) -> str | None:
    if robots is None:
        return None
    text = "unknown: no copy is stored"
    if robots["allowed"] is not None:
        text = "allowed" if robots["allowed"] else "disallowed"
        text += f" by the copy of {robots['fetchedAt']}: {_rule_text(robots)}"
    if robots["error"] is not None:
        text += f"; the request at {robots['failedAt']} failed: {robots['error']}"
    return text if robots["obeyed"] else f"{text}; ignored, because ROBOTSTXT_OBEY is off"


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


def _link_text(link: dict[str, Any]) -> str:
    if link["inScope"] is False:
        return " (out of scope)"
    nofollow = ", nofollow" if link["nofollow"] else ""
    return f" ({link['status'] or 'not known'}{nofollow})"


def _event_text(event: dict[str, Any]) -> str:
    text = f"{event['at']}  run {event['run']}: {event['event']}"
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
        text += f" {event['httpStatusCode']}" if event["httpStatusCode"] else ""
    return text


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


class Command(RegistryCommand):
    """Print the story of one address."""

    takes_words: ClassVar = True
    formats: ClassVar = ("text", "json")

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] URL | PATH"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Show the story of one address or file, in every source that has it: its record, the"
            " rule that decided last, its validators, its history, links in and out, clones, what"
            " would remove it and when, and its next visit. Of an unknown address: in which"
            " sources it would be. Exit status: 0 done, 1 not carried out."
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the story."""
        word = single_terminal_argument(
            args, "URL", f"{program_name()} why https://docs.example.com/page"
        )
        url = address_argument(word, connection, self.options)
        settings = self.settings
        known = load_stored_jobs_and_sources(self.options, connection)
        robots = RobotsOfSources(
            connection,
            robots_txt_answers,
            RobotsOptions.of(settings),
            obeyed=setting_value(settings, "ROBOTSTXT_OBEY"),
            jobs=stored_jobs_of_sources(connection, known),
        )
        stories = Stories(connection, self.options, known, robots, again=self.again)
        answer = stories.about(url, sources)
        holders = [story["record"]["source"] for story in answer["records"]]
        if holders:
            print_wrong_tables(self.name, known, holders)
        if not answer["records"] and url_item_kind(normalize_url(url)) == "url":
            _check_address(url)
        if opts.format == "json":
            print_json(answer)
        else:
            print_why_command(answer)


def _check_address(url: str) -> None:
    """Refuse a word that is no web address.

    Raises:
        RegistryError: with the probable address, if it can be guessed.
    """
    try:
        declared_web_address(url, with_user=True)
    except ValueError as error:
        raise RegistryError(f"the address {error}") from error

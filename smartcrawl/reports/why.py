"""The story of one address, as data (``scrapy why``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smartcrawl.extract.robots_txt import Answer
from smartcrawl.model.options import Options
from smartcrawl.model.ports import Connection
from smartcrawl.model.times import iso
from smartcrawl.model.urls import digest, item_id, normalize, request_url
from smartcrawl.registry.names import source_names
from smartcrawl.registry.removal.candidates import OUT_OF_SCOPE, looked_away
from smartcrawl.registry.removal.purge import Known, known
from smartcrawl.registry.runs.runs import last_state
from smartcrawl.reports import story
from smartcrawl.reports.entries import (
    CompleteRuns,
    Entry,
    complete_runs,
    entries,
    facts_of,
    last_settled,
    proposal_of,
)
from smartcrawl.reports.near_misses import near_misses
from smartcrawl.reports.sources_today import source_today, sources_today
from smartcrawl.reports.stored_robots import StoredRobots
from smartcrawl.reports.today import Today
from smartcrawl.rules.forecast import outcome_of_record, ways
from smartcrawl.rules.http import conditional_headers
from smartcrawl.rules.model import Action, Rule, RunState, Standing, Status, Word
from smartcrawl.rules.reindex import decide
from smartcrawl.sources.declared import Source
from smartcrawl.sources.refusals import refusals

#: Keys of the answer, and of each of its records.
KEYS = ("url", "id", "records", "inScopeOf", "refusedBy", "nearMisses")
STORY_KEYS = (
    "record", "standing", "decision", "request", "history", "linksIn", "linksOut", "clones",
    "canonical", "redirects", "pinnedAt", "proposal", "robots", "scope", "removal", "nextVisit",
)  # fmt: skip

_DONE = {
    Action.INDEX: "its content was indexed",
    Action.LIST: "its links were kept, and no content",
    Action.TOUCH: "nothing changed, so nothing was written",
    Action.NOTE: "the answer was noted; there was nothing to protect",
    Action.HOLD: "the answer was noted; the stored page stays, and stays searchable",
}


class Stories:
    """The stories of records, each put together from several tables."""

    def __init__(
        self,
        connection: Connection,
        options: Options,
        declared: dict[str, Source],
        robots: StoredRobots,
        *,
        obeys: bool,
        again: Callable[..., str],
    ) -> None:
        """Prepare the stories of one registry.

        ``robots`` explains the stored robots.txt copies (``robots_txt.explaining``), ``obeys`` is
        ROBOTSTXT_OBEY, and ``again`` formats a command line that acts on the same registry.
        """
        self._connection = connection
        self._options = options
        self._declared = declared
        self._robots = robots
        self._obeys = obeys
        self._again = again

    def about(self, url: str, sources: Sequence[str] = ()) -> dict[str, Any]:
        """Return the stories of one address, under KEYS; ``sources``: () for all."""
        connection, trackers = self._connection, self._options.trackers
        requested = request_url(url) or url
        key = digest(normalize(requested, trackers))
        pages = [page for page in known(connection, key) if not sources or page.source in sources]
        values = (
            requested,
            item_id("url", key),
            [self.story(page, key) for page in pages],
            [] if pages else self.in_scope(url),
            [] if pages else self.refused(url),
            [] if pages else near_misses(connection, url, trackers),
        )
        return dict(zip(KEYS, values, strict=True))

    def in_scope(self, url: str) -> list[str]:
        """Return the sources whose scope contains an address today."""
        return [source.name for source in self._today() if source.scope.allows(url)]

    def refused(self, url: str) -> list[dict[str, str]]:
        """Return the sources of its host that exclude an address today, and why."""
        found = refusals(self._today(), url)
        return [{"source": name, "why": why} for name, why in found.items()]

    def _today(self) -> list[Source]:
        names = sorted({*source_names(self._connection), *self._declared})
        return sources_today(self._connection, self._declared, names)

    def story(self, page: Known, key: bytes) -> dict[str, Any]:
        """Return the story of one record, under STORY_KEYS."""
        connection, trackers = self._connection, self._options.trackers
        entry = next(entries(connection, page.source_no, page.no))
        past = complete_runs(connection, page.source_no)
        source = source_today(connection, self._declared, page.source)
        scope = source.scope if source else None
        age = past.absence(entry.seen_run)[0] if entry.standing else 0
        record = story.record_of(connection, page.no, age)
        count_in, shown_in = story.links_in(connection, page.source_no, page.no, key, trackers)
        out, shown_out = story.links_out(connection, page.source_no, page.no, scope, trackers)
        history = story.history(connection, page.no)
        pinned = story.pinned_at(connection, page.no)
        values = (
            record,
            Standing(entry.standing).name.lower(),
            self._decision(page, entry, history, record["lastChecked"]),
            self._request(entry, record, source),
            history,
            {"count": count_in, "shown": shown_in},
            {"count": out, "shown": shown_out},
            {"original": record["duplicateOf"], "others": story.clones(connection, page.no)},
            self._canonical(page, entry, record),
            story.redirect_chain(connection, page.no),
            iso(pinned),
            self._proposal(page),
            self._robots_rule(entry.url),
            _scope_today(source, entry),
            self._removal(page, entry, past),
            self._next_visit(page, entry, past, source),
        )
        return dict(zip(STORY_KEYS, values, strict=True))

    def _decision(
        self, page: Known, entry: Entry, history: list[dict[str, Any]], visited: str | None
    ) -> dict[str, Any]:
        """Return the rule that decided about a page last, and the run."""
        word = None if entry.word is None else Word(entry.word)
        marks = [event for event in history if event["event"] in ("removed", "restored")]
        if marks and marks[-1]["run"] >= entry.visited_run:
            last = marks[-1]
            why = last["rule"] if last["event"] == "removed" else last["detail"]
            return _decided(f"{last['event']}: {why}", last["run"], last["at"])
        if word is None:
            return _decided("it was not visited yet", None, None)
        if entry.visited_run < entry.reached_run or word is Word.ORPHANED:
            run = last_settled(self._connection, page.source_no)
            return _decided(_UNASKED.get(word, word.word), run, None)
        run = entry.visited_run
        outcome = outcome_of_record(Status(entry.status), word, entry.http_status)
        last = history[-1]
        if word is Word.EXCLUDED and last["run"] > run and last.get("detail") == OUT_OF_SCOPE:
            return _decided(_UNASKED[word], last["run"], last["at"])
        if outcome is None:
            return _decided(f"{word.word}; its history says why", run, visited)
        before = {Word.NEW: Standing.BARE, Word.MODIFIED: Standing.HELD}
        standing = before.get(word, Standing(entry.standing))
        action = decide(standing, outcome).action
        text = f"{outcome.value} where {_HELD[standing]}: {action.value}, {word.word}"
        text = f"{text}; {_DONE[action]}"
        return _decided(text, run, visited, outcome=outcome.value, action=action.value)

    def _request(
        self, entry: Entry, record: dict[str, Any], source: Source | None
    ) -> dict[str, Any]:
        today = Today(self._connection, source, self._options)
        why, believed = today.reason_without_validators(entry), today.believed(entry)
        etag = record["httpEtag"] if believed & 1 else None
        modified = record["lastModifiedReceived"] if believed & 2 else None
        headers = conditional_headers(etag, modified, trusted=why is None)
        return {
            "url": entry.url,
            "conditional": why is None,
            "why": why,
            "headers": dict(headers),
            "distrusted": today.trust(entry).distrust_reasons(),
        }

    def _canonical(
        self, page: Known, entry: Entry, record: dict[str, Any]
    ) -> dict[str, Any] | None:
        if record["canonicalUrl"] is None and entry.canonical_no is None:
            return None
        target = self._entry(page, entry.canonical_no)
        return {
            "url": record["canonicalUrl"] or (target and target.url),
            "status": None if target is None else Status(target.status).word,
        }

    def _entry(self, page: Known, number: int | None) -> Entry | None:
        if number is None:
            return None
        return next(entries(self._connection, page.source_no, number), None)

    def _proposal(self, page: Known) -> dict[str, Any] | None:
        found = proposal_of(self._connection, page.no)
        if found is None:
            return None
        policy = self._options.policy
        held = found.rule is Rule.ORPHAN and not found.withheld
        failed = held and page.no not in looked_away(
            self._connection, found.renewed, page.source_no, policy
        )
        release = self._again("orphans", "--approve", found.run, "--max", 1)
        return {
            "rule": found.rule.word,
            "run": found.run,
            "renewedRun": found.renewed,
            "found": story.with_times(found.detail),
            "probe": found.probe,
            "heldByFailedLook": failed,
            "withheld": found.withheld,
            "release": release if found.withheld else None,
        }

    def _robots_rule(self, url: str) -> dict[str, Any] | None:
        answer, failure = self._robots.answer(url), self._robots.failure(url)
        if answer is None and failure is None:
            return None
        found, status, fetched_at = answer or (None, None, None)
        rule = Answer(True) if found is None else found
        return {
            "allowed": rule.allowed if answer is not None else None,
            "rule": rule.rule,
            "line": rule.line,
            "agent": rule.agent,
            "status": status,
            "fetchedAt": iso(fetched_at),
            "error": failure[0] if failure is not None else None,
            "failedAt": iso(failure[1]) if failure is not None else None,
            "obeyed": self._obeys,
        }

    def _removal(self, page: Known, entry: Entry, past: CompleteRuns) -> list[dict[str, Any]]:
        options = self._options
        reached = max(entry.reached_run, entry.seen_run) >= past.last
        canonical = self._entry(page, entry.canonical_no)
        aside = canonical is not None and canonical.sound
        facts = facts_of(entry, past, options.policy, reached=reached, aside=aside)
        remove = options.out_of_scope_policy == "remove"
        return [
            {
                "rule": way.rule.word,
                "runs": way.runs,
                "completeRunsOnly": way.complete,
                "underWay": way.current,
                "notBefore": iso(way.earliest),
                "minAgeSeconds": way.min_age,
                "text": str(way),
            }
            for way in ways(facts, options.policy, remove_excluded=remove)
        ]

    def _next_visit(
        self, page: Known, entry: Entry, past: CompleteRuns, source: Source | None
    ) -> dict[str, Any]:
        last = last_state(self._connection, page.source)
        running = last is not None and last[2] in (RunState.OPEN, RunState.VERIFYING)
        last_run = last[0] if last else 0
        if source is None:
            text = "none: its source is not in sources.toml any more"
        elif not source.scope.allows(entry.url):
            text = "none: it is out of scope"
        elif entry.pinned:
            text = "in every run: it is pinned"
        elif running and entry.visited_run < entry.reached_run == last_run:
            text = "in the run that is open"
        elif max(entry.reached_run, entry.seen_run) < past.last or entry.word == Word.ORPHANED:
            text = "none, unless a link leads there again"
        else:
            text = "in the next run that reaches it"
        return {"dueAt": iso(entry.next_visit), "text": text}


def _decided(
    text: str,
    run: int | None,
    at: str | None,
    *,
    outcome: str | None = None,
    action: str | None = None,
) -> dict[str, Any]:
    return {"run": run, "at": at, "outcome": outcome, "action": action, "text": text}


_UNASKED = {
    Word.ORPHANED: "no seed and no link led to it; the stored page stays for now",
    Word.SKIPPED: "it was reached, and not visited before the run ended",
    Word.EXCLUDED: "it is out of scope, so it was not asked",
}
_HELD = {
    Standing.BARE: "nothing is stored",
    Standing.LINKS: "only links are stored",
    Standing.HELD: "content is stored",
}


def _scope_today(source: Source | None, entry: Entry) -> dict[str, Any]:
    if source is None:
        return {"allowed": None, "why": "the source is not in sources.toml any more"}
    refusal = None if entry.kind else source.scope.refusal(entry.url)  # patterns are for pages
    return {"allowed": refusal is None, "why": refusal}

"""Concerns of a source: facts of its status that an operator should look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from smartcrawl.model.program import program_crawl_line
from smartcrawl.registry.chunks import refused_reasons_text
from smartcrawl.registry.library.shortfall import TRIMMED, stored_trimmed_note
from smartcrawl.reports.remedies import NOTES, reported_reason
from smartcrawl.reports.status import SourceStatus
from smartcrawl.reports.text import report_noun, report_time_span, run_state_text
from smartcrawl.reports.vectors import VectorCounts
from smartcrawl.rules.model import RunState
from smartcrawl.rules.seal import NOT_DUE, seed_led_to

MANY_ERRORS: Final = 0.1  #: share of pages whose last visit failed that is a concern
#: Counts that are a concern unless they are 0, and the command that lists or resolves it.
LOOKS: Final = (
    ("withheld", "withheld: removals waiting for approval", ("orphans",)),
    ("lost", "lost: now returns an error; the last good copy is still searchable", ("deltamerge",)),
    ("orphans", "orphaned: no link to it any more, or left out of the crawl", ("orphans",)),
    (
        "without_text",
        "without text, perhaps because scripts write it in the browser",
        ("registry", "--no-text"),
    ),
)
#: The words where a listing says which pages exist.
LISTED_LOOKS: Final = {
    "orphans": "orphaned: in no listing and linked nowhere any more, or left out of the crawl",
    "without_text": "without text",
}


class Concern(NamedTuple):
    """One fact that an operator should look at."""

    text: str
    command: tuple[str, ...] = ()  #: words of the command that lists or resolves it, if any


def reported_concerns(status: SourceStatus, now: int, *, longest: int) -> Iterator[Concern]:
    """Yield the concerns of one source.

    ``now`` is in Unix seconds. ``longest`` is CRAWL_MAX_INTERVAL_SECONDS.
    """
    run, counts, only = status.last_run, status.counts, ("--source", str(status.source))
    # A due crawl ends with pages that were not due until a whole round was visited: no concern.
    reasons = [] if run is None else [r for r in run.reasons if not r.startswith(f"{NOT_DUE}:")]
    if status.is_vanished:
        yield Concern(
            "no longer declared: its pages stay searchable, but are neither refreshed "
            "nor removed. Declare it again, or remove it:",
            ("forget", *only),
        )
    if status.is_wrong:
        yield Concern(
            "its table in sources.toml has a mistake: its pages stay searchable, but are "
            "neither refreshed nor removed until you correct it"
        )
    for reason in reasons:
        assert run is not None, "it has the reasons"
        why = reported_reason(reason, run.no, is_library=status.is_library)
        led = seed_led_to(reason)
        crawl = () if led is None else tuple(program_crawl_line(led).split(" ")[1:])
        yield Concern(f"not complete: {why}", crawl)
    if status.completed_at is None:
        yield Concern("no run was complete yet, so orphaned pages cannot be found")
    elif (
        run is not None
        and run.no != status.complete_run
        and (reasons or now - status.completed_at > longest)
    ):
        age = report_time_span(now - status.completed_at)
        yield Concern(f"the last complete run was {status.complete_run}, {age} ago")
    if (counts.error_rate or 0) > MANY_ERRORS:
        text = f"{reported_percent(counts.error_rate)} of the pages failed at their last visit"
        yield Concern(text, ("registry", "--status", "error", *only))
    if (status.ages.most or 0) > longest:
        oldest = report_time_span(status.ages.most)
        text = f"5 % of the stored pages were not visited for {oldest} or longer"
        yield Concern(f"{text}, and CRAWL_MAX_INTERVAL_SECONDS is {longest}")
    if status.trimmed:
        note = stored_trimmed_note(status.trimmed)
        yield Concern(f"{note} ({NOTES[TRIMMED]})")
    if status.vectors is not None:
        yield from _vector_concerns(status.vectors, only)
    for name, text, words in LOOKS:
        if number := getattr(counts, name):
            known = LISTED_LOOKS.get(name, text) if status.is_listed else text
            yield Concern(f"{number:,} {known}", (*words, *only))


def _vector_concerns(counts: VectorCounts, only: tuple[str, str]) -> Iterator[Concern]:
    """Yield the concerns about vectors of a source; ``only``: words of a command that name it."""
    if counts.owed:
        verb = "has" if counts.owed == 1 else "have"
        chunks = report_noun(counts.chunks, "chunk")
        yield Concern(f"{counts.owed:,} of {chunks} {verb} no vector yet", ("embed", *only))
    if counts.may_ask_again:
        why = refused_reasons_text(counts.reasons)
        yield Concern(
            f"{report_noun(counts.refused, 'chunk')} refused by the embedder ({why}), so "
            "a search by meaning does not find them",
            ("embed", "--refused", *only),
        )


class StatusVerdict(NamedTuple):
    """Answers to three questions about a source; each is None where all is well, or the reason."""

    stale: str | None  #: why it is not fresh
    incomplete: str | None  #: why it is not complete
    ill: str | None  #: why it is not healthy

    def __str__(self) -> str:
        """Return the answers in words.

        >>> str(StatusVerdict(None, "max_pages", None))
        'fresh; not complete: max_pages; healthy'
        """
        words = ("fresh", "complete", "healthy")
        answers = zip(words, self, strict=True)
        return "; ".join(f"not {word}: {why}" if why else word for word, why in answers)

    @property
    def well(self) -> bool:
        """Whether the source is fresh, complete and healthy."""
        return not any(self)


def status_report_verdict(status: SourceStatus, now: int, *, longest: int) -> StatusVerdict:
    """Return whether a source is fresh, complete and healthy.

    ``now`` is in Unix seconds. ``longest`` is CRAWL_MAX_INTERVAL_SECONDS. Fresh: 95 % of the
    stored pages were visited within it. Complete: the last run that was to see everything did.
    Healthy: no page is lost, no removal waits, few pages fail, and no run died.
    """
    return StatusVerdict(_stale(status, longest), _incomplete(status, now, longest), _ill(status))


def _stale(status: SourceStatus, longest: int) -> str | None:
    if status.is_vanished:
        return "no longer declared, so no run visits it"
    if status.is_wrong:
        return "its table in sources.toml has a mistake, so no run visits it"
    if status.ages.most is None:
        return "nothing is stored"
    if status.ages.most > longest:
        return f"5 % of the pages were not visited for {report_time_span(status.ages.most)}"
    return None


def _incomplete(status: SourceStatus, now: int, longest: int) -> str | None:
    run = status.last_run
    if status.completed_at is None:
        return "no run was complete yet"
    if run is None or run.no == status.complete_run:
        return None
    if run.finished_at is None:
        return f"run {run.no} has not ended"
    if run.state in (RunState.INTERRUPTED, RunState.CANCELLED):
        return run_state_text(run.state, run.reasons)
    reasons = [r.partition(":")[0] for r in run.reasons if not r.startswith(f"{NOT_DUE}:")]
    if reasons:
        return ", ".join(dict.fromkeys(reasons))
    if now - status.completed_at > longest:
        return f"the last complete run was {report_time_span(now - status.completed_at)} ago"
    return None


def _ill(status: SourceStatus) -> str | None:
    counts = status.counts
    found = []
    if counts.lost:
        found.append(f"{counts.lost:,} lost")
    if counts.withheld:
        found.append(f"{counts.withheld:,} withheld")
    if (counts.error_rate or 0) > MANY_ERRORS:
        found.append(f"{reported_percent(counts.error_rate)} failed")
    return ", ".join(found) or None


def reported_percent(share: float | None) -> str:
    """Return a share as a percentage.

    >>> reported_percent(0.5), reported_percent(0.125), reported_percent(None)
    ('50 %', '12.5 %', '0 %')
    """
    return f"{100 * (share or 0):.1f} %".replace(".0 %", " %")

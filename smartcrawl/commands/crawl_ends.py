"""The ends of several crawls: a line for each, and one table at the end."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any, Final

from smartcrawl.commands.spider_runs import DONE, FAILED, HELD, SEVERITY
from smartcrawl.commands.summary import summary_command_line
from smartcrawl.model.redaction import redacted_line
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.model import Word
from smartcrawl.rules.seal import only_not_due
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output, printed_json
from smartcrawl.terminal.tables import (
    print_table,
    printed_name_column,
    printed_note_column,
    printed_number_column,
    printed_whole_column,
    printed_word_column,
)

NOT_BEGUN: Final = "not begun: the crawl was stopped before"
_COUNTS: Final = ("new", "modified", "lost", "removed", "failed", "requests", "seconds")
_COLUMNS: Final = (
    printed_name_column("source"),
    printed_word_column("complete"),
    *(printed_number_column(name) for name in _COUNTS),
    printed_note_column("why", "why not"),
    printed_whole_column("explain", "look at it"),
)


@dataclass(frozen=True, slots=True)
class CrawlEnd:
    """What came of the crawl of one source."""

    source: str
    status: int  #: exit status of a command that crawls it alone
    run: int | None = None  #: None: no run was opened, or its result is not known
    complete: bool = False
    reasons: tuple[str, ...] = ()  #: why it is incomplete, or was not carried out
    new: int = 0
    modified: int = 0
    lost: int = 0
    removed: int = 0
    failed: int = 0
    requests: int = 0
    seconds: int = 0
    stopped: bool = False  #: whether a signal ended it: no other source is begun

    @property
    def why(self) -> str:
        """Why it is not well, in one line; empty where it is."""
        return "" if self.status == DONE else "; ".join(self.reasons)

    @property
    def state(self) -> str:
        """Whether it saw everything, in a word or two."""
        if self.complete:
            return "yes"
        if self.status == DONE:
            return "what was due" if only_not_due(self.reasons) else "by order"
        return {FAILED: "failed", HELD: "held"}.get(self.status, "no")

    def as_data(self) -> dict[str, Any]:
        """Return it for programs."""
        return asdict(self) | {"reasons": list(self.reasons)}


def crawl_end_of_data(data: dict[str, Any]) -> CrawlEnd:
    """Return the end that ``CrawlEnd.as_data`` was made of."""
    return CrawlEnd(**data | {"reasons": tuple(data["reasons"])})


def crawl_end_of_run(
    source: str, result: RunResult, status: int, seconds: int | None, *, stopped: bool, error: str
) -> CrawlEnd:
    """Return the end of a run; ``seconds``: None, if another process began it."""
    counts = result.own_counts
    if seconds is None:
        seconds = max(0, (result.finished_at or result.started_at) - result.started_at)
    return CrawlEnd(
        source,
        status,
        run=result.no,
        complete=result.complete and status == DONE,
        reasons=((redacted_line(error),) if error else ()) + result.reasons,
        new=counts.get(Word.NEW.word, 0),
        modified=counts.get(Word.MODIFIED.word, 0),
        lost=counts.get(Word.LOST.word, 0),
        removed=result.removed,
        failed=counts.get(Word.FAILED.word, 0),
        requests=result.requests,
        seconds=seconds,
        stopped=stopped,
    )


def worst_status(ends: Sequence[CrawlEnd]) -> int:
    """Return the exit status of all together: that of the worst."""
    return max((end.status for end in ends), default=DONE, key=SEVERITY.index)


def crawl_end_line(end: CrawlEnd) -> str:
    """Return one line about the end of a crawl.

    >>> crawl_end_line(CrawlEnd("docs", 0, 1, True, new=2, requests=3, seconds=4))
    'docs: complete, 2 new, 3 requests, 4 s'
    >>> crawl_end_line(CrawlEnd("docs", 1, reasons=("no such folder",)))
    'docs: failed: no such folder'
    """
    if end.run is None:
        return f"{end.source}: {end.state if end.status != DONE else 'done'}: {end.why}"
    words = {"yes": "complete", "no": f"incomplete ({end.why})", "failed": f"failed ({end.why})"}
    parts = [words.get(end.state, end.state)]
    parts += [f"{n:,} {name}" for name in _COUNTS[:5] if (n := getattr(end, name))]
    parts += [report_noun(end.requests, "request"), f"{end.seconds:,} s"]
    return f"{end.source}: {', '.join(parts)}"


def print_crawl_ends(
    ends: Sequence[CrawlEnd], data_dir: str, *, is_json: bool, file: IO[str] | None = None
) -> None:
    """Print all ends, the worst first, with the command that explains each that is not well."""
    ends = sorted(ends, key=lambda end: -SEVERITY.index(end.status))  # stable: in their order
    explained = [(end, _explained(end, data_dir)) for end in ends]
    file = file or sys.stdout
    if is_json:
        sources = [end.as_data() | {"explain": line or None} for end, line in explained]
        for row in sources:
            del row["stopped"]
        data = {"sources": sources, "status": worst_status(ends)}
        print(printed_json(data, file), file=file)
        return
    rows = [
        {name: getattr(end, name) for name in ("source", *_COUNTS)}
        | {"complete": end.state, "why": end.why, "explain": line}
        for end, line in explained
    ]
    output = Output(file)
    output.say()
    print_table(_COLUMNS, rows, file=file)
    bad = sum(end.status != DONE for end in ends)
    done = report_noun(len(ends), "source")
    output.say(escape(f"{done}: {bad:,} to look at" if bad else f"{done}, all well"))


def _explained(end: CrawlEnd, data_dir: str) -> str:
    """Return the command that explains why a crawl is not well; empty where it is."""
    if end.status == DONE:
        return ""
    name = shlex.quote(end.source)
    if end.run is None and end.status == FAILED:
        return summary_command_line("crawl", data_dir, name)
    return summary_command_line("status", data_dir, f"--source {name}")

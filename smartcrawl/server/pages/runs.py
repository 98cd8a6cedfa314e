"""Runs: their list, and one run: live while it is open, then its closing table and its pages."""

from __future__ import annotations

import re
from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from smartcrawl.registry.connection import Connection
from smartcrawl.reports.run_charts import (
    Chart,
    run_changes_chart,
    run_requests_chart,
    run_stored_chart,
)
from smartcrawl.reports.text import run_state_text
from smartcrawl.rules.model import RunState, Word
from smartcrawl.rules.seal import only_not_due
from smartcrawl.server.explained.run_logs import RUN_LOG_LEVELS, RunLogQuery, run_log_data
from smartcrawl.server.explained.runs import check_readable_run, run_data, run_samples_data
from smartcrawl.server.pages.pages import LAST_FRAGMENT, Pages, is_page_fragment, page_query
from smartcrawl.server.queries import NUMBER_PATTERN, KeptAnswers

_RUNS: Final = "/api/v1/runs"
_SHOWN: Final = 20  #: runs of a page
_PAGES: Final = 100  #: pages of a list
_LISTS: Final = ("new", "modified", "lost", "failed", "removed")
_LIVE_SECONDS: Final = 1.0  #: one fragment serves all who watch a run
_DRAWN_SECONDS: Final = 5.0  #: the same of its picture, which has a new point every ten seconds
_DRAWN: Final = 50  #: runs of a picture of a source
_WATCHED: Final = 100  #: runs whose fragments are kept
_NUMBER: Final = re.compile(NUMBER_PATTERN.strip("^$"), re.ASCII)
#: Counts of a run that are compared with those of the run before, in words.
_COMPARED: Final = (
    *((word.word, word.word) for word in Word),
    ("removed", "removed"),
    ("withheld", "withheld from removal"),
    ("requests", "requests"),
    ("notModified", "answered 304"),
    ("bytesDownloaded", "bytes downloaded"),
    ("bytesSaved", "bytes saved by 304"),
)


def run_result_word(run: dict[str, Any]) -> str:
    """Return the result of a run (``smartcrawl runs``) in one word or two, as that command does.

    >>> run_result_word({"finishedAt": None, "state": "open", "complete": False, "reasons": []})
    'open'
    """
    if run["finishedAt"] is None:
        return RunState.OPEN.word
    if run["state"] in (RunState.INTERRUPTED.word, RunState.CANCELLED.word):
        return run_state_text(RunState[run["state"].upper()], run["reasons"])
    if only_not_due(run["reasons"]):
        return "due"
    return "complete" if run["complete"] else "incomplete"


class _Watching:
    """The fragments of open runs, each made once in its seconds for all who watch the run."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        clock = pages.context.clock
        self._kept: KeptAnswers[tuple[str, bool]] = KeptAnswers(_LIVE_SECONDS, _WATCHED, clock)
        self._drawn: KeptAnswers[tuple[str, bool]] = KeptAnswers(_DRAWN_SECONDS, _WATCHED, clock)
        self._logged: KeptAnswers[tuple[str, bool]] = KeptAnswers(_LIVE_SECONDS, _WATCHED, clock)

    async def answer(self, request: Request, run: int) -> Response:
        """Answer with a fragment; the rights of the visitor are checked before.

        ``part`` of the query: "chart" is that of the requests over time, "log" the end of the log;
        else that of the counts.

        Raises:
            ApiError: the visitor may read no run of this number.
        """
        context = self._pages.context
        reader = context.reader(request)
        await context.stores.read_little(lambda seen: check_readable_run(seen, run, reader))

        def counts(seen: Connection) -> tuple[str, bool]:
            found = run_data(seen, context, run, reader)
            values = {"run": found, "progress": found["progress"], "path": f"/runs/{run}"}
            return self._text("run_live.html", **values), found["isRunning"]

        def chart(seen: Connection) -> tuple[str, bool]:
            found = run_samples_data(seen, context, run, reader)
            drawn = run_requests_chart(found["samples"])
            return self._text("run_chart.html", chart=drawn), found["isRunning"]

        level = _level(request)
        asked = RunLogQuery.model_validate({"level": level or None})

        def log(seen: Connection) -> tuple[str, bool]:
            found = run_log_data(seen, context, asked, run, reader)
            return self._text("run_log.html", log=found), found["isRunning"]

        part = request.query_params.get("part")
        kept, key, read = {
            "chart": (self._drawn, (run, ""), chart),
            "log": (self._logged, (run, level), log),
        }.get(part or "", (self._kept, (run, ""), counts))
        text, is_running = await kept.get(key, lambda: context.stores.read_moment(read))
        return HTMLResponse(text, 200 if is_running else LAST_FRAGMENT)

    def _text(self, template: str, **values: object) -> str:
        """Return a fragment; nothing of it is about one visitor."""
        return self._pages.environment.get_template(template).render(values)


def add_pages(pages: Pages) -> None:
    """Add the pages of runs."""
    watching = _Watching(pages)

    async def show_all(request: Request) -> Response:
        given = request.query_params
        query = page_query({}, limit=_SHOWN, source=given.get("source"), offset=given.get("offset"))
        found = await pages.read(request, f"{_RUNS}{query}")
        source, charts = given.get("source", ""), dict[str, Chart | None]()
        if source:
            last = await pages.read(
                request, f"{_RUNS}{page_query({}, source=source, limit=_DRAWN)}"
            )
            charts = await to_thread.run_sync(_source_charts, last["runs"])
        return pages.show(
            request,
            "runs.html",
            title=f"Runs of {source}" if source else "Runs",
            runs=[(run, run_result_word(run)) for run in found["runs"]],
            pagination=found["pagination"],
            asked=given,
            chosen=source,
            charts=charts,
        )

    async def show(request: Request) -> Response:
        no = request.path_params["run"]
        if is_page_fragment(request) and _NUMBER.fullmatch(no):
            return await watching.answer(request, int(no))
        run, given = await pages.read(request, f"{_RUNS}/{no}"), request.query_params
        which = given.get("list", "")
        which = which if which in _LISTS else next((one for one in _LISTS if run[one]), "new")
        query = page_query({}, list=which, limit=_PAGES, offset=given.get("offset"))
        listed = await pages.read(request, f"{_RUNS}/{no}/pages{query}")
        level = _level(request)
        sampled = await pages.read(request, f"{_RUNS}/{no}/progress")
        return pages.show(
            request,
            "run.html",
            title=f"Run {run['run']} of {run['source']}",
            run=run,
            result=run_result_word(run),
            progress=run["progress"],
            chart=await to_thread.run_sync(run_requests_chart, sampled["samples"]),
            counts=_counts(run),
            lists=[(one, run[one]) for one in _LISTS],
            which=which,
            listed=listed,
            asked=given,
            levels=RUN_LOG_LEVELS,
            level=level,
            log=await pages.read(request, f"{_RUNS}/{no}/log{page_query({}, level=level)}"),
        )

    pages.add("/runs", show_all, navigated="Runs")
    pages.add("/runs/{run}", show)


def _source_charts(runs: list[dict[str, Any]]) -> dict[str, Chart | None]:
    """Return the pictures of the runs of a source, newest first, by the names of their parts."""
    oldest_first = runs[::-1]
    return {"changes": run_changes_chart(oldest_first), "stored": run_stored_chart(oldest_first)}


def _level(request: Request) -> str:
    """Return the lowest level of the lines that a visitor wants to see; "": all of them."""
    level = request.query_params.get("level", "")
    return level if level in RUN_LOG_LEVELS else ""


def _counts(run: dict[str, Any]) -> list[tuple[str, int, int | None]]:
    """Return the counts of a run that are not 0, each with that of the run before."""
    before = run["before"]
    found = []
    for key, label in _COMPARED:
        former = None if before is None else before[key]
        if run[key] or former:
            found.append((label, run[key], former))
    return found

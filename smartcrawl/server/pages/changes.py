"""What changed: a page by source and time, and the difference of two versions of a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.model.redaction import visible_text
from smartcrawl.registry.visibility import readable_source_names
from smartcrawl.reports.changes import ChangeKind
from smartcrawl.reports.changes_text import how_much_changed, where_it_changed
from smartcrawl.reports.diff_text import diff_limits
from smartcrawl.server.guard import FEED_PATH
from smartcrawl.server.pages.pages import Pages, page_query

_CHANGES: Final = "/api/v1/changes"
_SHOWN: Final = 100  #: changes of a page
_SIDES: Final = ("inline", "side")
#: Kinds whose pages stand out.
_WARN: Final = frozenset({ChangeKind.LOST, ChangeKind.REMOVED})

Line = Mapping[str, Any]


def add_pages(pages: Pages) -> None:
    """Add the pages of changes."""

    async def show_all(request: Request) -> Response:
        given = request.query_params
        source, since = given.get("source", ""), given.get("since", "").strip()
        values: dict[str, Any] = {"runs": [], "cursor": None, "error": ""}
        query = page_query({}, source=source, since=since, cursor=given.get("cursor"), limit=_SHOWN)
        reply = await pages.call(request, "GET", f"{_CHANGES}{query}")
        if reply.error is None:
            values["runs"] = _by_run(reply.data["changes"])
            values["cursor"] = reply.data["pagination"]["next_cursor"]
        elif reply.error.field == "since":
            values["error"] = reply.error.reason or reply.error.message
        else:
            raise reply.error
        reader = pages.context.reader(request)
        sources = await pages.context.stores.read_little(
            lambda seen: readable_source_names(seen, reader)
        )
        return pages.show(
            request,
            "changes.html",
            sources=sources,
            status=reply.status,
            title=f"What changed in {visible_text(source)}" if source else "What changed",
            chosen=source,
            since=since,
            asked=given,
            feed=FEED_PATH + page_query({}, source=source).rstrip("?"),
            **values,
        )

    async def show(request: Request) -> Response:
        given, key = request.query_params, request.path_params["url_hash"]
        query = page_query(
            {}, source=given.get("source"), before=given.get("before"), after=given.get("after")
        )
        reply = await pages.call(request, "GET", f"/api/v1/documents/{key}/diff{query}")
        if reply.error is not None:
            raise reply.error
        diff = reply.data
        side = given.get("view", "")
        return pages.show(
            request,
            "change.html",
            title=f"What changed in {visible_text(diff['title'] or diff['url'])}",
            diff=diff,
            much=how_much_changed(diff),
            hunks=[(hunk, list(_pairs(hunk["lines"]))) for hunk in diff["hunks"]],
            limits=diff_limits(diff),
            side=side if side in _SIDES else "side",
            asked=given,
        )

    pages.add("/changes", show_all, navigated="Changes")
    pages.add("/changes/{url_hash}", show)


def _by_run(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the changes of each run, and in words what each page has."""
    return [
        {
            "source": source,
            "run": run,
            "changes": [
                change
                | {
                    "much": how_much_changed(change),
                    "where": where_it_changed(change),
                    "isBad": change["kind"] in _WARN,
                }
                for change in of_run
            ],
        }
        for (source, run), of_run in groupby(changes, lambda one: (one["source"], one["run"]))
    ]


def _pairs(lines: Sequence[Line]) -> Iterator[tuple[Line | None, Line | None]]:
    """Yield lines that stand beside each other: of the old text, and of the new one."""
    for is_changed, group in groupby(lines, lambda line: line["sign"] != " "):
        some = list(group)
        if not is_changed:
            yield from ((line, line) for line in some)
            continue
        old = [line for line in some if line["sign"] == "-"]
        yield from zip_longest(old, [line for line in some if line["sign"] == "+"])

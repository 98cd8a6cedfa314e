"""Records: why a page is stored or not, by its number or its address, and orders for it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.model.redaction import visible_text
from smartcrawl.reports.changes_text import how_much_changed
from smartcrawl.reports.story_text import story_event_words, story_facts, story_link_text
from smartcrawl.server.explained.records import readable_record
from smartcrawl.server.pages.pages import ApiReply, Pages, page_form

_RECORDS: Final = "/api/v1/records"
#: What was done by a form, in words, by the parameter with which its page comes back.
_DONE: Final = {
    "fetched": "It will be fetched anew: a run of what is due of its source follows.",
    "pinned": "It is pinned: every run of its source requests it, even if no link leads there.",
}


def add_pages(pages: Pages) -> None:
    """Add the pages of records, and the targets of their forms."""

    async def look_up(request: Request) -> Response:
        typed = request.query_params.get("url", "").strip()
        values: dict[str, Any] = {"typed": typed, "found": None, "error": ""}
        status = 200
        if typed:
            reply = await pages.call(request, "GET", f"{_RECORDS}?{urlencode({'url': typed})}")
            if reply.error is None:
                values["found"] = reply.data
                if len(reply.data["records"]) == 1:
                    return pages.redirect(f"/records/{reply.data['records'][0]['no']}")
            elif reply.error.field == "url":
                status, values["error"] = reply.status, reply.error.reason or reply.error.message
            else:
                raise reply.error
        title = f"{visible_text(typed)} – Record" if typed else "Look up a page"
        return pages.show(request, "record_search.html", status=status, title=title, **values)

    async def show(request: Request) -> Response:
        done = _DONE.get(request.query_params.get("done", ""), "")
        story = await _story(pages, request)
        return _shown(pages, request, story, done=done)

    async def fetch(request: Request) -> Response:
        story = await _story(pages, request)
        body = {"id": story["record"]["id"], "force": True}
        path = "/api/ReindexItem"
        return await _ordered(pages, request, story, path=path, body=body, done="fetched")

    async def pin(request: Request) -> Response:
        story = await _story(pages, request)
        record = story["record"]
        body = {"url": record["url"], "force": False, "source": record["source"]}
        path = "/api/AddUrlDocument"
        return await _ordered(pages, request, story, path=path, body=body, done="pinned")

    async def confirm(request: Request) -> Response:
        return _confirm(pages, request, await _story(pages, request))

    async def forget(request: Request) -> Response:
        story = await _story(pages, request)
        path = f"{_RECORDS}/{story['no']}/forget"
        once = page_form(request).get("once", "")
        reply = await pages.call(request, "POST", path, {"confirm": True}, once=once)
        if reply.error is None:
            return pages.redirect(f"/removals/{reply.data['order_id']}")
        problem = reply.error.reason or reply.error.message
        return _confirm(pages, request, story, status=reply.status, problem=problem)

    pages.add("/records", look_up, navigated="Look up")
    pages.add("/records/{no}", show)
    pages.add("/records/{no}/fetch", fetch, method="POST")
    pages.add("/records/{no}/pin", pin, method="POST")
    pages.add("/records/{no}/forget", confirm)
    pages.add("/records/{no}/forget", forget, method="POST")


async def _story(pages: Pages, request: Request) -> dict[str, Any]:
    """Return the story of the record of a path, with versions and what its query asks for.

    Raises:
        ApiError: the visitor may read no record of this number.
    """
    given = request.query_params
    return await readable_record(
        pages.context,
        pages.context.reader(request),
        request.path_params["no"],
        links_in=given.get("links_in") == "true",
        text=given.get("text") == "true",
        versions=True,
    )


async def _ordered(
    pages: Pages,
    request: Request,
    story: dict[str, Any],
    *,
    path: str,
    body: dict[str, Any],
    done: str,
) -> Response:
    """Give an order about a record, and return to its page."""
    once = page_form(request).get("once", "")
    reply: ApiReply = await pages.call(request, "POST", path, body, once=once)
    if reply.error is None:
        return pages.redirect(f"/records/{story['no']}?done={done}")
    problem = reply.error.reason or reply.error.message
    return _shown(pages, request, story, status=reply.status, problem=problem)


def _shown(
    pages: Pages,
    request: Request,
    story: dict[str, Any],
    *,
    status: int = 200,
    done: str = "",
    problem: str = "",
) -> Response:
    return pages.show(
        request,
        "record.html",
        status=status,
        title=f"{visible_text(story['record']['url'])} – Record",
        story=story,
        facts=_grouped(story),
        leads=_leads(story),
        events=[(event, story_event_words(event)) for event in reversed(story["history"])],
        links=[(link["url"], story_link_text(link)) for link in story["linksOut"]["shown"]],
        asked=request.query_params,
        versions=[(version, how_much_changed(version)) for version in story["versions"]],
        done=done,
        problem=problem,
    )


def _confirm(
    pages: Pages,
    request: Request,
    story: dict[str, Any],
    *,
    status: int = 200,
    problem: str = "",
) -> Response:
    """Ask whether a page is really to be forgotten; ``problem``: why it was not."""
    title = f"Forget {visible_text(story['record']['url'])}"
    values = {"story": story, "problem": problem, "title": title}
    return pages.show(request, "record_forget.html", status=status, **values)


def _grouped(story: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """Return the facts of a record by their labels, in their order."""
    found: list[tuple[str, list[str]]] = []
    for label, text in story_facts(story):
        if label or not found:
            found.append((label, [text]))
        else:
            found[-1][1].append(text)
    return found


def _leads(story: dict[str, Any]) -> dict[str, str]:
    """Return the addresses of other pages in the facts of a record, by their labels."""
    found = {
        "canonical": (story["canonical"] or {}).get("url"),
        "redirects": (story["redirects"] or [None])[-1],
        "clone of": story["clones"]["original"],
        "found on": story["record"]["discoveredFrom"],
    }
    return {label: url for label, url in found.items() if url}

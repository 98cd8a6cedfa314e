"""Removals: those that wait, approvals with a typed number, undos, and who ordered them."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from smartcrawl.model.redaction import visible_text
from smartcrawl.server.pages.pages import LAST_FRAGMENT, Pages, is_page_fragment, page_form

_REMOVALS: Final = "/api/v1/removals"
_SHOWN: Final = 20  #: pages of each sample
_ENDED: Final = "ended"
_NO_NUMBER: Final = "type the number of pages that may go, in digits"


def add_pages(pages: Pages) -> None:
    """Add the pages of removals, and the targets of their forms."""

    async def show(request: Request) -> Response:
        return await _list(pages, request)

    async def approve(request: Request) -> Response:
        run = page_form(request).get("run", "")
        return await _remove(pages, request, f"/api/v1/runs/{run}/approve", {}, run)

    async def remove(request: Request) -> Response:
        form = page_form(request)
        body = {"source": form.get("of", ""), "kind": form.get("kind", "")}
        return await _remove(pages, request, _REMOVALS, body, f"{body['source']} {body['kind']}")

    async def undo(request: Request) -> Response:
        form = page_form(request)
        run, body = form.get("run", ""), {"pin": form.get("pin", "") == "yes"}
        return await _ordered(pages, request, f"/api/v1/runs/{run}/undo", body)

    async def order(request: Request) -> Response:
        found = await pages.read(request, f"{_REMOVALS}/{request.path_params['order']}")
        values = {"order": found, "goes_on": found["status"] != _ENDED}
        if is_page_fragment(request):
            text = pages.text(request, "removal_order_state.html", **values)
            return HTMLResponse(text, 200 if values["goes_on"] else LAST_FRAGMENT)
        what = f"run {found['run']} of {found['source']}"
        if found["url"] is not None:
            what = visible_text(found["url"])
        title = f"{_ACTIONS.get(found['action'], found['action'].capitalize())} {what}"
        return pages.show(request, "removal_order.html", title=title, **values)

    pages.add("/removals", show, navigated="Removals")
    pages.add("/removals/approve", approve, method="POST")
    pages.add("/removals/undo", undo, method="POST")
    pages.add("/removals/remove", remove, method="POST")
    pages.add("/removals/{order}", order)


async def _remove(
    pages: Pages, request: Request, path: str, body: dict[str, Any], which: str
) -> Response:
    """Order a removal of at most the number that was typed; ``which``: the list it stands at."""
    typed = page_form(request).get("max", "").strip()
    if not typed.isascii() or not typed.isdecimal():
        return await _list(pages, request, status=400, run=which, typed=typed, problem=_NO_NUMBER)
    body |= {"max": int(typed[:18])}
    return await _ordered(pages, request, path, body, run=which, typed=typed)


async def _ordered(
    pages: Pages, request: Request, path: str, body: dict[str, Any], **refused: str
) -> Response:
    """Give an order of a form, and lead to its page; where it is refused, back to the lists."""
    reply = await pages.call(request, "POST", path, body, once=page_form(request).get("once", ""))
    if reply.error is None:
        return pages.redirect(f"/removals/{reply.data['order_id']}")
    problem = reply.error.reason or reply.error.message
    return await _list(pages, request, status=reply.status, problem=problem, **refused)


async def _list(
    pages: Pages,
    request: Request,
    *,
    status: int = 200,
    run: str = "",
    typed: str = "",
    problem: str = "",
) -> Response:
    """Show the removals; ``problem``: why an order was refused, ``typed``: its number.

    Raises:
        ApiError: there is no such source.
    """
    form = request.scope.get("smartcrawl.form") or {}
    source = request.query_params.get("source", "") or form.get("source", "")
    offset = request.query_params.get("offset", "")
    query: dict[str, Any] = {"limit": _SHOWN}
    query |= {"source": source} if source else {}
    query |= {"offset": offset} if offset.isascii() and offset.isdecimal() else {}
    found = await pages.read(request, f"{_REMOVALS}?{urlencode(query)}")
    lists = [
        {"source": one, "most": max(one[name]["count"] for name in _LISTS)}
        for one in found["sources"]
    ]
    return pages.show(
        request,
        "removals.html",
        status=status,
        title=f"Removals of {source}" if source else "Removals",
        found=found,
        lists=lists,
        chosen=source,
        refused={"run": run, "typed": typed, "problem": problem},
    )


#: Actions in words, where they are no verbs.
_ACTIONS: Final = {"lost": "Remove lost pages after", "orphans": "Remove orphans after"}
_LISTS: Final = ("waiting", "lost", "orphans")

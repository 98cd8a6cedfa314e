"""Keys of the API, for administrators: a list, a form that makes one, and its end."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.server.errors import ApiError, api_not_found
from smartcrawl.server.key_routes import KeyOrder
from smartcrawl.server.keys import SCOPES
from smartcrawl.server.pages.pages import Pages, page_form

_KEYS: Final = "/api/v1/keys"
_FIELDS: Final = ("name", "scope", "sources", "expires_days")
_DONE: Final = {"revoked": "It is revoked: servers refuse it within 5 seconds."}


def add_pages(pages: Pages) -> None:
    """Add the list, the form, and the question before a key ends."""

    async def show(request: Request) -> Response:
        typed = {name: request.query_params.get(name, "") for name in _FIELDS}
        done = _DONE.get(request.query_params.get("done", ""), "")
        return await _shown(pages, request, typed, done=done)

    async def make(request: Request) -> Response:
        form = page_form(request)
        typed = {name: form.get(name, "") for name in _FIELDS}
        reply = await pages.call(
            request, "POST", _KEYS, key_order_of_form(typed), once=form.get("once", "")
        )
        if reply.error is None:
            return await _shown(pages, request, {}, made=reply.data)
        return await _shown(pages, request, typed, error=reply.error)

    async def confirm(request: Request) -> Response:
        key = await _key(pages, request)
        return pages.show(request, "key_revoke.html", title=f"Revoke {key['name']}?", one=key)

    async def revoke(request: Request) -> Response:
        key = await _key(pages, request)
        reply = await pages.call(request, "DELETE", f"{_KEYS}/{key['key_id']}")
        if reply.error is not None:
            raise reply.error
        return pages.redirect("/keys?done=revoked")

    pages.add("/keys", show, navigated="Keys", for_administrators=True)
    pages.add("/keys", make, method="POST")
    pages.add("/keys/{key_id}/revoke", confirm)
    pages.add("/keys/{key_id}/revoke", revoke, method="POST")


def key_order_of_form(typed: dict[str, str]) -> dict[str, Any]:
    """Return the body of the API for what was typed; days that are not a number stay text.

    >>> key_order_of_form({"name": "grafana", "sources": "docs, wiki", "expires_days": "30"})
    {'name': 'grafana', 'sources': ['docs', 'wiki'], 'expires_days': 30}
    """
    body: dict[str, Any] = {"name": typed.get("name", "")}
    if scope := typed.get("scope"):
        body["scope"] = scope
    if names := typed.get("sources", "").replace(",", "\n").split("\n"):
        body["sources"] = [name.strip() for name in names if name.strip()]
    days = typed.get("expires_days", "").strip()
    if days:
        body["expires_days"] = int(days) if days.isascii() and days.isdecimal() else days
    return body


async def _key(pages: Pages, request: Request) -> dict[str, Any]:
    """Return the key of a path.

    Raises:
        ApiError: there is none, or the visitor is no administrator.
    """
    found = await pages.read(request, _KEYS)
    wanted = request.path_params["key_id"]
    for key in found["keys"]:
        if key["key_id"] == wanted:
            return dict(key)
    raise api_not_found("", reason="no key has this id")


async def _shown(
    pages: Pages,
    request: Request,
    typed: dict[str, str],
    *,
    made: dict[str, Any] | None = None,
    error: ApiError | None = None,
    done: str = "",
) -> Response:
    """Return the page of all keys; ``made``: a new one, whose text is shown now and never again."""
    found = await pages.read(request, _KEYS)
    hints = {name: one.description for name, one in KeyOrder.model_fields.items()}
    return pages.show(
        request,
        "keys.html",
        status=200 if error is None else error.status,
        title="Keys",
        keys=found["keys"][::-1],
        typed=typed,
        made=made,
        problem=error,
        done=done,
        hints=hints,
        scopes=SCOPES,
        sources=await pages.source_names(request),
    )

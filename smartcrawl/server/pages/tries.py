"""Trial of addresses: what the sources would do with them, and one page as indexed."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.model.redaction import visible_text
from smartcrawl.server.errors import ApiError
from smartcrawl.server.explained.decisions import MOST_TRIED
from smartcrawl.server.pages.pages import Pages, page_form

_FIELDS: Final = ("urls", "source")


def add_pages(pages: Pages) -> None:
    """Add the page."""

    async def show(request: Request) -> Response:
        given = request.query_params
        typed = {name: given.get(name, "") for name in _FIELDS}
        body = tried_addresses(typed)
        found: list[dict[str, Any]] = []
        error: ApiError | None = None
        if body["urls"]:
            reply = await pages.call(request, "POST", "/api/v1/decisions", body)
            error = reply.error
            found = [] if error is not None else reply.data["decisions"]
        return await show_tried(pages, request, typed, found=found, error=error)

    async def preview(request: Request) -> Response:
        form = page_form(request)
        typed = {name: form.get(name, "").strip() for name in ("url", "source")}
        body = {"url": typed["url"], "source": typed["source"] or None}
        reply = await pages.call(request, "POST", "/api/v1/previews", body)
        if reply.error is None:
            title = f"{visible_text(reply.data['url'])} as indexed"
            return pages.show(request, "preview.html", title=title, found=reply.data)
        back = {"urls": typed["url"], "source": typed["source"]}
        return await show_tried(pages, request, back, found=[], error=reply.error)

    pages.add("/try", show, navigated="Try it")
    pages.add("/try", preview, method="POST")


def tried_addresses(typed: dict[str, str]) -> dict[str, Any]:
    """Return the body of the API for what was typed: an address a line.

    >>> tried_addresses({"urls": "https://a.example/ \\n\\na.example/b", "source": ""})
    {'urls': ['https://a.example/', 'https://a.example/b'], 'source': None}
    """
    lines = [line.strip() for line in typed["urls"].split("\n") if line.strip()]
    urls = [line if ":" in line.partition("/")[0] else f"https://{line}" for line in lines]
    return {"urls": urls, "source": typed["source"] or None}


async def show_tried(
    pages: Pages,
    request: Request,
    typed: dict[str, str],
    *,
    found: list[dict[str, Any]],
    error: ApiError | None = None,
) -> Response:
    """Return the page with its form and what was found."""
    sources = await pages.read(request, "/api/v1/jobs?limit=1000")
    names = {job["name"] for job in sources["jobs"] if job["type"] == "crawl"}
    names.update(await pages.source_names(request))
    return pages.show(
        request,
        "try.html",
        status=200 if error is None else error.status,
        title="Try it",
        typed=typed,
        found=found,
        wrong="" if error is None else error.field or "urls",
        why="" if error is None else error.reason or error.message,
        names=sorted(names),
        most=MOST_TRIED,
    )

"""One address that begins: it becomes a job of the API, and its crawl is shown while it runs."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from smartcrawl.server.errors import ApiError
from smartcrawl.server.pages.pages import ApiReply, Pages, is_page_fragment, page_form

_JOBS: Final = "/api/v1/jobs"
_NAMES: Final = 20  #: that are tried for a job, where others have the name of its host
_LONGEST_NAME: Final = 250
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_JOB: Final = re.compile(r"job_[0-9a-f]{16}")
_UNDER_WAY: Final = ("created", "scheduled", "running")
_STOP_POLLING: Final = 286  #: with this status htmx asks no more


def add_pages(pages: Pages) -> None:
    """Add the form, its target, and the progress of its crawl."""

    async def form(request: Request) -> Response:
        typed = request.query_params.get("url", "")
        return pages.show(request, "begin.html", title="Crawl a site", typed=typed, error="")

    async def begin(request: Request) -> Response:
        typed = page_form(request).get("url", "").strip()
        reply = await _created(pages, request, typed)
        if reply.error is None:
            return pages.redirect(f"/crawl/{reply.data['job_id']}")
        return pages.show(
            request,
            "begin.html",
            status=reply.status,
            title="Crawl a site",
            typed=typed,
            error=_words(reply.error),
        )

    async def progress(request: Request) -> Response:
        job = request.path_params["job"]
        reply = ApiReply(404, {"error": {"code": "NOT_FOUND", "message": "", "details": {}}})
        if _JOB.fullmatch(job):
            reply = await pages.call(request, "GET", f"{_JOBS}/{job}")
        if reply.error is not None:
            raise reply.error
        values: dict[str, Any] = {"job": reply.data, "goes_on": reply.data["status"] in _UNDER_WAY}
        if not is_page_fragment(request):
            title = f"Crawl of {reply.data['name']}"
            return pages.show(request, "crawl.html", title=title, **values)
        status = 200 if values["goes_on"] else _STOP_POLLING
        return HTMLResponse(pages.text(request, "crawl_progress.html", **values), status)

    pages.add("/crawl", form, navigated="Crawl")
    pages.add("/crawl", begin, method="POST")
    pages.add("/crawl/{job}", progress)


async def _created(pages: Pages, request: Request, typed: str) -> ApiReply:
    """Make a job of an address; its name is that of the host, with a number where that is taken."""
    url = typed if "://" in typed or not typed else f"https://{typed}"
    once = page_form(request).get("once", "")
    name = job_name_of_address(url)
    for number in range(1, _NAMES + 1):
        tried = name if number == 1 else f"{name}-{number}"
        body = {"name": tried, "seed_urls": [url]}
        reply = await pages.call(request, "POST", _JOBS, body, once=_numbered(once, number))
        if reply.error is None or reply.error.code != "CONFLICT" or reply.error.field != "name":
            break
    return reply


def _numbered(once: str, number: int) -> str:
    """Return the Idempotency-Key of one of several requests of a form."""
    if not once or number == 1:
        return once
    return str(UUID(bytes=sha256(f"{once} {number}".encode()).digest()[:16], version=4))


def job_name_of_address(url: str) -> str:
    """Return a name for the job of an address.

    >>> job_name_of_address("https://docs.example.com:8080/a"), job_name_of_address("x")
    ('docs.example.com-8080', 'site')
    """
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or ''}-{parts.port}" if parts.port else parts.hostname or ""
    except ValueError:
        host = ""
    return _UNFIT.sub("-", host)[:_LONGEST_NAME].strip("-.") or "site"


def _words(error: ApiError) -> str:
    """Return why an address is refused, as its field shows it."""
    reason = error.reason or error.message
    return reason.replace("seed_urls[0]", "the address").replace("seed_urls", "the address")

"""One address that begins: it becomes a job of the API, and its crawl is shown while it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from smartcrawl.rules.run_orders import JobAction, JobStatus, permitted_job_actions
from smartcrawl.server.errors import ApiError, api_not_found
from smartcrawl.server.pages.pages import (
    LAST_FRAGMENT,
    ApiReply,
    Pages,
    is_page_fragment,
    page_form,
)

JOBS: Final = "/api/v1/jobs"
_NAMES: Final = 20  #: that are tried for a job, where others have the name of its host
_LONGEST_NAME: Final = 250
_UNFIT: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_JOB: Final = re.compile(r"job_[0-9a-f]{16}")
_BUTTONS: Final[Mapping[JobAction, str]] = {
    JobAction.PAUSE: "Pause",
    JobAction.RESUME: "Resume",
    JobAction.CANCEL: "Cancel for good",
    JobAction.START: "Crawl it again",
}
_UNDER_WAY: Final = ("created", "scheduled", "running")


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

    async def progress(request: Request, refused: ApiError | None = None) -> Response:
        job = await page_job(pages, request)
        values: dict[str, Any] = {
            "job": job,
            "goes_on": job["status"] in _UNDER_WAY,
            "actions": page_job_actions(job),
            "refused": refused,
        }
        if not is_page_fragment(request):
            title, status = f"Crawl of {job['name']}", refused.status if refused else 200
            return pages.show(request, "crawl.html", status=status, title=title, **values)
        status = 200 if values["goes_on"] else LAST_FRAGMENT
        return HTMLResponse(pages.text(request, "crawl_progress.html", **values), status)

    async def order(request: Request) -> Response:
        job = await page_job(pages, request)
        body = {"action": page_form(request).get("action", "")}
        reply = await pages.call(request, "POST", f"{JOBS}/{job['job_id']}/control", body)
        if reply.error is not None:
            return await progress(request, reply.error)
        return pages.redirect(f"/crawl/{job['job_id']}")

    pages.add("/crawl", form, navigated="Crawl")
    pages.add("/crawl", begin, method="POST")
    pages.add("/crawl/{job}", progress)
    pages.add("/crawl/{job}", order, method="POST")


async def page_job(pages: Pages, request: Request) -> dict[str, Any]:
    """Return the job of a path.

    Raises:
        ApiError: there is none, or it is no crawl.
    """
    job = request.path_params["job"]
    if not _JOB.fullmatch(job):
        raise api_not_found("")
    found = await pages.read(request, f"{JOBS}/{job}")
    if found["type"] != "crawl":
        raise api_not_found("")
    return found


def page_job_actions(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the orders that a job takes now, each with its button."""
    if job["requested"] is not None:
        return []
    may_start = job["schedule"]["type"] != "recurring"
    permitted = permitted_job_actions(JobStatus(job["status"]), may_start=may_start)
    return [(action.value, _BUTTONS[action]) for action in permitted]


async def _created(pages: Pages, request: Request, typed: str) -> ApiReply:
    """Make a job of an address; its name is that of the host, with a number where that is taken."""
    url = typed if "://" in typed or not typed else f"https://{typed}"
    once = page_form(request).get("once", "")
    name = job_name_of_address(url)
    for number in range(1, _NAMES + 1):
        tried = name if number == 1 else f"{name}-{number}"
        body = {"name": tried, "seed_urls": [url]}
        reply = await pages.call(request, "POST", JOBS, body, once=_numbered(once, number))
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

"""Jobs: a form that makes or changes one, its next times, orders to it, and its deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from smartcrawl.server.errors import ApiError, api_not_found
from smartcrawl.server.pages.begin import JOBS, page_job, page_job_actions
from smartcrawl.server.pages.job_form import (
    JOB_FIELDS,
    JOB_FORM,
    job_of_form,
    typed_job,
    usual_job,
)
from smartcrawl.server.pages.pages import Pages, page_form

_NAMES: Final = tuple(field.name for field in JOB_FIELDS)
_SCHEDULE: Final = "schedule"
#: What was done by a form, in words, by the parameter with which its page comes back.
_DONE: Final = {
    "saved": "It is saved: a run that is open goes on with what it began with.",
    "forced": "All of its pages are downloaded and indexed anew: a run of them follows.",
}


def add_pages(pages: Pages) -> None:
    """Add the pages of jobs, and the targets of their forms."""

    async def new(request: Request) -> Response:
        return await _form(pages, request, None, usual_job() | _typed(request.query_params))

    async def create(request: Request) -> Response:
        form = page_form(request)
        if form.get("do") == "times":
            return await _form(pages, request, None, _typed(form), shows_times=True)
        once = form.get("once", "")
        reply = await pages.call(request, "POST", JOBS, job_of_form(form), once=once)
        if reply.error is None:
            return pages.redirect(f"/crawl/{reply.data['job_id']}")
        return await _form(pages, request, None, _typed(form), error=reply.error)

    async def edit(request: Request) -> Response:
        job = await page_job(pages, request)
        typed = typed_job(job) | _typed(request.query_params)
        done = _DONE.get(request.query_params.get("done", ""), "")
        return await _form(pages, request, job, typed, done=done)

    async def replace(request: Request) -> Response:
        job, form = await page_job(pages, request), page_form(request)
        typed = typed_job(job) | _typed(form)
        if form.get("do") == "times":
            return await _form(pages, request, job, typed, shows_times=True)
        body = job_of_form(form, only=_SCHEDULE if job["declared"] else None)
        if job["declared"]:
            body.setdefault(_SCHEDULE, {})
        if version := _seen_version(request):
            body["version"] = version
        path, once = f"{JOBS}/{job['job_id']}", form.get("once", "")
        reply = await pages.call(request, "PUT", path, body, once=once)
        if reply.error is None:
            return pages.redirect(f"/jobs/{job['job_id']}?done=saved")
        return await _form(pages, request, job, typed, error=reply.error)

    pages.add("/jobs/new", new)
    pages.add("/jobs/new", create, method="POST")
    _add_fires(pages)
    pages.add("/jobs/{job}", edit)
    pages.add("/jobs/{job}", replace, method="POST")
    _add_deletion(pages)
    _add_force(pages)


def _add_force(pages: Pages) -> None:
    async def confirm(request: Request, problem: ApiError | None = None) -> Response:
        job = await page_job(pages, request)
        title = f"Fetch {job['name']} anew?"
        return _confirmation(pages, request, "job_force.html", job, title=title, problem=problem)

    async def force(request: Request) -> Response:
        job, once = await page_job(pages, request), page_form(request).get("once", "")
        body = {"source": job["name"]}
        reply = await pages.call(request, "POST", "/api/v1/reindex", body, once=once)
        if reply.error is not None:
            return await confirm(request, reply.error)
        return pages.redirect(f"/jobs/{job['job_id']}?done=forced")

    pages.add("/jobs/{job}/force", confirm)
    pages.add("/jobs/{job}/force", force, method="POST")


def _add_fires(pages: Pages) -> None:
    async def fires(request: Request) -> Response:
        times = await _times(pages, request, request.query_params.get("cron", ""))
        return HTMLResponse(pages.text(request, "job_times.html", times=times))

    pages.add("/jobs/fires", fires)


def _add_deletion(pages: Pages) -> None:
    async def confirm(request: Request, problem: ApiError | None = None) -> Response:
        job = await page_job(pages, request)
        if job["declared"]:
            raise api_not_found("", reason="a declared source is deleted in its file")
        title = f"Delete {job['name']}?"
        return _confirmation(pages, request, "job_delete.html", job, title=title, problem=problem)

    async def delete(request: Request) -> Response:
        job = await page_job(pages, request)
        reply = await pages.call(request, "DELETE", f"{JOBS}/{job['job_id']}")
        if reply.error is not None:
            return await confirm(request, reply.error)
        return pages.redirect("/sources?done=deleted")

    pages.add("/jobs/{job}/delete", confirm)
    pages.add("/jobs/{job}/delete", delete, method="POST")


def _confirmation(
    pages: Pages,
    request: Request,
    template: str,
    job: dict[str, Any],
    *,
    title: str,
    problem: ApiError | None,
) -> Response:
    """Return the question before an order to a job; ``problem``: why the order was refused."""
    status = 200 if problem is None else problem.status
    return pages.show(request, template, status=status, title=title, job=job, problem=problem)


def _typed(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name in _NAMES if name in given}


def _seen_version(request: Request) -> int | None:
    """Return the version of the job that the form was made of: a later one is not overwritten."""
    given = page_form(request) if request.method == "POST" else request.query_params
    version = given.get("version", "")
    return int(version) if version.isascii() and version.isdecimal() else None


async def _times(pages: Pages, request: Request, cron: str) -> dict[str, Any]:
    """Return the next times of a schedule, or why it has none."""
    if not cron.strip():
        return {"fires": [], "why": ""}
    reply = await pages.call(request, "GET", f"/api/v1/fires?{urlencode({'cron': cron.strip()})}")
    if reply.error is not None:
        return {"fires": [], "why": reply.error.reason or reply.error.message}
    return {"fires": reply.data["fires"], "why": ""}


async def _form(
    pages: Pages,
    request: Request,
    job: dict[str, Any] | None,
    typed: dict[str, str],
    *,
    error: ApiError | None = None,
    done: str = "",
    shows_times: bool = False,
) -> Response:
    """Return the form with what was typed; ``job``: the one that it changes."""
    wrong = "" if error is None else error.field or ""
    if wrong not in _NAMES:
        wrong = ""
    return pages.show(
        request,
        "job.html",
        status=200 if error is None else error.status,
        title="New source" if job is None else f"Settings of {job['name']}",
        job=job,
        groups=JOB_FORM,
        hints={field.name: field.hint for field in JOB_FIELDS},
        typed=typed,
        version=_seen_version(request) or (job or {}).get("version"),
        wrong=wrong,
        why="" if error is None else error.reason or error.message,
        done=done,
        times=await _times(pages, request, typed.get("cron", "")),
        shows_times=shows_times,
        actions=[] if job is None else page_job_actions(job),
    )

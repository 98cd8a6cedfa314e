"""Hooks of sources: what publishes pages says that they changed, and they are due now (R1-53).

A source has a hook if its table names a token. A sender without it learns nothing, not even which
sources there are (ADR 176).
"""

from __future__ import annotations

import json
import logging
import secrets
from dataclasses import dataclass
from typing import Annotated, Any, Final

from anyio import to_thread
from fastapi import APIRouter, Depends, Path, Request, Response
from starlette.datastructures import Headers

from smartcrawl.model.secrets import read_secret
from smartcrawl.model.urls import Trackers, normalize_url, url_digest
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.items import make_noticed_rows_due
from smartcrawl.registry.source_due import make_source_row_due
from smartcrawl.rules.incoming import is_notice_token, is_signed_notice
from smartcrawl.server.answers import HookAnswer
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_invalid_input, api_not_found
from smartcrawl.server.items import make_source_pages_due
from smartcrawl.server.jobs.declared import DeclaredHook, DeclaredNames
from smartcrawl.server.queries import json_response, refuse_api_query
from smartcrawl.sources.github.pushes import pushed_page_urls, read_push
from smartcrawl.sources.github.source import GithubSource

logger = logging.getLogger(__name__)

_SIGNATURE: Final = "X-Hub-Signature-256"
_EVENT: Final = "X-GitHub-Event"
_TOKEN: Final = "X-Gitlab-Token"  # noqa: S105  # the name of a header


@dataclass(frozen=True, slots=True)
class HookNotice:
    """What a notice that has the right to a hook is about."""

    source: str
    is_listed: bool  #: a listing finds what changed
    urls: tuple[str, ...] | None  #: of the pages; None: all of the source


def is_hook_sender(secret: str, headers: Headers, body: bytes) -> bool:
    """Whether a request has the signature of a hook, or else its token."""
    signature = headers.get(_SIGNATURE)
    if signature is not None:
        return is_signed_notice(secret, body, signature)
    scheme, _, bearer = headers.get("Authorization", "").partition(" ")
    token = bearer.strip() if scheme.lower() == "bearer" else headers.get(_TOKEN, "")
    return is_notice_token(secret, token)


def hook_notice(hook: DeclaredHook, headers: Headers, body: bytes) -> HookNotice:
    """Return what a request is about: the files of a push, else the whole source.

    Raises:
        ApiError: it is called a push of GitHub, and is none.
    """
    source = hook.source
    urls: list[str] | None = None
    event = headers.get(_EVENT) if _SIGNATURE in headers else None
    if event == "ping":
        urls = []
    elif event == "push" and isinstance(source, GithubSource):
        try:
            urls = pushed_page_urls(source.address, read_push(json.loads(body or b"null")))
        except ValueError as error:
            raise api_invalid_input(None, str(error)) from error
    found = None if urls is None else tuple(urls)
    return HookNotice(source.name, source.traits.is_listed, found)


def carry_out_hook(
    connection: Connection, notice: HookNotice, trackers: Trackers, now: int
) -> dict[str, Any]:
    """Bring visits forward; return the answer. ``now``: Unix seconds. The caller's transaction.

    Files that are not known are found by a listing, so that the source is due for one.
    """
    due = 0
    if notice.urls is None:
        make_source_row_due(connection, notice.source)
        if not notice.is_listed:
            due = make_source_pages_due(connection, notice.source, now)
    elif notice.urls:
        keys = {url_digest(normalize_url(url, trackers)) for url in notice.urls}
        found = make_noticed_rows_due(connection, list(keys), now, (notice.source,))
        due = len(found)
        if due < len(keys):
            make_source_row_due(connection, notice.source)
    return {"source": notice.source, "whole": notice.urls is None, "due": due}


def _unknown() -> ApiError:
    reason = "there is no hook of this name that takes this token or signature"
    return api_not_found("Hook not found", reason=reason)


def add_routes(context: Context, router: APIRouter) -> None:
    """Add the route of hooks."""
    declared = DeclaredNames(*context.options.source_files)
    nothing = secrets.token_hex()  # compared where there is no hook, so that it takes as long

    def checked(name: str, headers: Headers, body: bytes) -> HookNotice:
        hook, secret = declared.hook_of(name), nothing
        if hook is not None and hook.source.hook is not None:
            try:
                secret = read_secret(hook.source.hook, hook.folder).reveal()
            except ValueError as error:
                logger.error("the hook of %s takes no notices: %s", name, error)
                hook = None
        if not is_hook_sender(secret, headers, body) or hook is None:
            raise _unknown()
        return hook_notice(hook, headers, body)

    @router.post(
        "/hooks/{source}",
        tags=["items"],
        summary="Notice of a source by its token, or of a push to it: what changed is due now",
        status_code=202,
        response_model=HookAnswer,
        responses={404: {}},
        dependencies=[Depends(refuse_api_query)],
    )
    async def notice_source(
        request: Request, source: Annotated[str, Path(examples=["docs"])]
    ) -> Response:
        body = await request.body()
        notice = await to_thread.run_sync(checked, source, request.headers, body)
        now, trackers = int(context.clock()), context.options.trackers
        found = await context.stores.write_in_turn(
            lambda connection: carry_out_hook(connection, notice, trackers, now)
        )
        response = json_response(found)
        response.status_code = 202
        return response

"""The login, the logout, the choice of a theme, and files."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from smartcrawl.registry.connection import Connection
from smartcrawl.server.errors import api_not_found
from smartcrawl.server.keys import Key, Scope, find_api_key
from smartcrawl.server.pages.layers import LOGIN, is_form_kept, show_login, shown_by
from smartcrawl.server.pages.pages import THEME_COOKIE, THEMES, Pages, page_form, safe_page_path
from smartcrawl.server.pages.sessions import (
    PageSession,
    begin_page_session,
    drop_page_session_cookie,
    end_page_session,
    page_session_of,
    set_page_session_cookie,
)
from smartcrawl.server.pages.static_files import STATIC, page_static_files

_WRONG: Final = "This key is unknown, expired or revoked."
_TOO_SMALL: Final = "A key of scope search is for search boxes only: log in with one of scope read."
_YEAR: Final = 31_536_000


def add_pages(pages: Pages) -> None:
    """Add the pages."""
    stores, clock = pages.context.stores, pages.context.clock

    async def login(request: Request) -> Response:
        return show_login(pages, request, safe_page_path(request.query_params.get("next", "/")))

    async def log_in(request: Request) -> Response:
        form = page_form(request)
        then, kept = safe_page_path(form.get("next", "/")), form.get("kept", "")
        text, now = form.get("key", "").strip(), clock()
        former = page_session_of(request.scope)

        def begin(connection: Connection) -> tuple[Key | None, str]:
            key = find_api_key(connection, text, now)
            if key is None or key.scope < Scope.READ:
                return key, ""
            _end(connection, former)
            return key, begin_page_session(connection, key, now)

        key, token = await stores.write_in_turn(begin)
        if not token:
            error = _WRONG if key is None else _TOO_SMALL
            return show_login(pages, request, then, kept=kept, error=error)
        joined = "&" if "?" in then else "?"
        answer = pages.redirect(then, f"{joined}{kept}" if is_form_kept(kept) else "")
        set_page_session_cookie(request, answer, token)
        return answer

    async def log_out(request: Request) -> Response:
        former = page_session_of(request.scope)
        await stores.write_in_turn(lambda connection: _end(connection, former))
        answer = pages.redirect(LOGIN if pages.context.server.keys_required else "/")
        drop_page_session_cookie(request, answer)
        return answer

    async def choose_theme(request: Request) -> Response:
        answer = pages.redirect(shown_by(request))
        chosen = page_form(request).get("theme", "")
        if chosen in THEMES:
            answer.set_cookie(THEME_COOKIE, chosen, max_age=_YEAR, samesite="lax", httponly=True)
        else:
            answer.delete_cookie(THEME_COOKIE)
        return answer

    async def static(request: Request) -> Response:
        found = page_static_files().get(request.path_params["name"])
        if found is None:
            raise api_not_found("", reason="this file is of another version; reload the page")
        return found.response(request)

    pages.add(LOGIN, login)
    pages.add(LOGIN, log_in, method="POST")
    pages.add("/logout", log_out, method="POST")
    pages.add("/theme", choose_theme, method="POST")
    pages.add(f"{STATIC}{{name}}", static)


def _end(connection: Connection, session: PageSession | None) -> None:
    if session is not None:
        end_page_session(connection, session.token)

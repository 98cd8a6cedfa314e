"""The layers around the pages: headers, errors in words, who may come, and tokens of forms."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from smartcrawl.model.exceptions import EmbedderError, FrontierError, RegistryError, SinkError
from smartcrawl.server.bodies import check_request_address
from smartcrawl.server.errors import CODES, ApiError, api_unavailable, request_id_of
from smartcrawl.server.guard import is_request_of_proxy, request_across_sites
from smartcrawl.server.keys import login_key_exists
from smartcrawl.server.pages.pages import (
    FORM_PROOF,
    LOGIN_OFFERED,
    Pages,
    is_page_fragment,
    read_page_form,
    safe_page_path,
)
from smartcrawl.server.pages.sessions import (
    new_page_form_cookie,
    page_form_token,
    page_session_of,
    set_page_form_cookie,
)
from smartcrawl.server.pages.static_files import STATIC

logger = logging.getLogger(__name__)

LOGIN: Final = "/login"
_LONGEST_QUERY: Final = 32_000  #: characters of typed fields that come back; a request takes 64 KiB
#: Paths that show nothing of the registry, and are there for everyone.
OPEN_PAGES: Final = ("/opensearch.xml", "/search.js")
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
#: ``no-referrer`` would have browsers send our own forms with ``Origin: null``.
_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_TITLES: Final[Mapping[int, str]] = {
    400: "This request cannot be read",
    403: "Not permitted",
    404: "There is no such page",
    405: "This page does not take that",
    409: "Something else came first",
    413: "This is too large",
    422: "This cannot be done",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Not available at the moment",
}
_AWAY: Final[Mapping[type[Exception], str]] = {
    RegistryError: "the registry",
    SinkError: "the search index",
    FrontierError: "Redis",
    EmbedderError: "the embedder of the vectors",
}
_OTHER_SESSION: Final = "the form is not of this session; reload its page, and send it again"


class PageHeaders:
    """The layer that gives each answer the headers of a page; files keep their caching."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._added = [(name.lower().encode(), text.encode()) for name, text in _HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", ()), *self._added]
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store"))
                message["headers"] = headers
            await send(message)

        await self._app(scope, receive, headed)


class PageFaults:
    """The layer that answers errors as pages; what nothing expected is logged."""

    def __init__(self, app: ASGIApp, pages: Pages) -> None:
        self._app = app
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; pages are whole answers, so that none has begun where one fails."""
        try:
            await self._app(scope, receive, send)
        except Exception as error:  # noqa: BLE001  # it is logged, and shown without its text
            await send_page_error(self._pages, (scope, receive, send), _error_of(error))


def _error_of(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HTTPException):
        code = "NOT_FOUND" if error.status_code == 404 else "INVALID_INPUT"
        return ApiError(code, "")
    for kind, what in _AWAY.items():
        if isinstance(error, kind):
            logger.error("%s", error)
            return api_unavailable(f"{what} is not available")
    logger.error("a page failed unexpectedly", exc_info=error)
    return ApiError("INTERNAL_ERROR", "")


async def send_page_error(
    pages: Pages, called: tuple[Scope, Receive, Send], error: ApiError
) -> None:
    """Answer a request with an error as a page."""
    scope, receive, send = called
    request = Request(scope)
    for name in ("smartcrawl.session", "smartcrawl.key"):
        scope.setdefault(name, None)  # the session itself may be what failed
    text = pages.text(
        request,
        "error.html",
        title=_TITLES.get(error.status, "This cannot be done"),
        error=error,
        usual=CODES[error.code][1],
        request_id=request_id_of(scope),
    )
    answer = Response(text, error.status, error.headers, media_type="text/html")
    await answer(scope, receive, send)


class PageGuard:
    """The layer that refuses whom no session lets in, and forms without their token."""

    def __init__(self, app: ASGIApp, pages: Pages) -> None:
        self._app = app
        self._pages = pages
        self._server = pages.context.server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with the fields of its form.

        Raises:
            ApiError: it is refused.
        """
        path = scope["path"]
        check_request_address(scope)
        if path.startswith(STATIC) or path in OPEN_PAGES:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        form = await read_page_form(request) if scope["method"] == "POST" else None
        if page_session_of(scope) is None:
            if path != LOGIN and self._is_key_needed(request):
                await login_answer(self._pages, request, form)(scope, receive, send)
                return
            self._refuse_other_sites(request)
            if not is_page_fragment(request):
                scope[LOGIN_OFFERED] = await self._is_login_of_use()
        if form is not None:
            if page_session_of(scope) is not None or path == LOGIN:
                _check_token(scope, form)
            scope["smartcrawl.form"] = form
        await self._app(scope, receive, send)

    async def _is_login_of_use(self) -> bool:
        """Whether a key could open a session where none is needed."""
        now = int(self._pages.context.clock())
        try:
            return await self._pages.context.stores.read_little(
                lambda seen: login_key_exists(seen, now)
            )
        except RegistryError:  # pages without it, such as the reference, are shown all the same
            return False

    def _is_key_needed(self, request: Request) -> bool:
        return self._server.keys_required or is_request_of_proxy(request.headers)

    def _refuse_other_sites(self, request: Request) -> None:
        """Refuse what a page of another site may have sent, where no key is needed."""
        if self._is_key_needed(request):  # of the login: its form has a token
            return
        found = request_across_sites(
            request.headers, self._server.host, is_navigation=_is_navigation(request)
        )
        if found is not None:
            raise ApiError("FORBIDDEN", reason=found)


def _is_navigation(request: Request) -> bool:
    """Whether a browser goes to a page: a link of any site may lead there, for it only reads."""
    headers: Headers = request.headers
    return request.method == "GET" and headers.get("sec-fetch-mode") == "navigate"


def _check_token(scope: Scope, form: Mapping[str, str]) -> None:
    known = page_form_token(scope)
    if not known or not hmac.compare_digest(known.encode(), form.get(FORM_PROOF, "").encode()):
        raise ApiError("FORBIDDEN", reason=_OTHER_SESSION)


def login_answer(pages: Pages, request: Request, form: Mapping[str, str] | None) -> Response:
    """Return the way to the login, which leads back to this page.

    A form whose session has ended gets the login at once: its fields are kept there, and come back
    in the query of the page that showed it.
    """
    if is_page_fragment(request):
        page = request.headers.get("hx-current-url", "")
        here = safe_page_path(page.partition(request.headers.get("host", ""))[2] or "/")
        query = urlencode({"next": here})
        return Response(status_code=204, headers={"HX-Redirect": f"{LOGIN}?{query}"})
    if form is None:
        here = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
        query = "" if here == "/" else f"?{urlencode({'next': here})}"
        return Response(status_code=303, headers={"Location": f"{LOGIN}{query}"})
    kept = urlencode({name: text for name, text in form.items() if name != FORM_PROOF})
    return show_login(pages, request, shown_by(request), kept=kept)


def is_form_kept(kept: str) -> bool:
    """Whether the fields of a form, as a query, come back after the login."""
    return 0 < len(kept) <= _LONGEST_QUERY


def shown_by(request: Request) -> str:
    """Return the path of the page whose form was sent: the one that the browser names."""
    referer = request.headers.get("referer", "")
    return safe_page_path(referer.partition(request.headers.get("host", " "))[2] or "/")


def show_login(
    pages: Pages,
    request: Request,
    then: str,
    *,
    kept: str = "",
    error: str = "",
) -> Response:
    """Return the login; ``then``: the path afterwards, ``kept``: its query of typed fields."""
    values: dict[str, Any] = {"then": then, "kept": kept, "error": error, "title": "Log in"}
    values["comes_back"] = is_form_kept(kept)
    token, cookie = page_form_token(request.scope), ""
    if not token:
        cookie, token = new_page_form_cookie()
    values["login_token"] = token
    status = 403 if error or kept else 200
    answer = pages.show(request, "login.html", status=status, **values)
    if cookie:
        set_page_form_cookie(request, answer, cookie)
    return answer

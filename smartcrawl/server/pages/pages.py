"""The parts that all pages share: routes, templates, forms, redirects, and calls of the API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from anyio import to_thread
from jinja2 import Environment, FunctionLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from smartcrawl import __version__
from smartcrawl.registry.visibility import readable_source_names
from smartcrawl.server.bodies import LIMIT
from smartcrawl.server.context import Context
from smartcrawl.server.errors import ApiError, api_invalid_input, request_id_of
from smartcrawl.server.guard import ORDER_HEADER
from smartcrawl.server.keys import Key, Scope
from smartcrawl.server.pages.markup import page_markup_filters
from smartcrawl.server.pages.sessions import page_form_token, page_session_of
from smartcrawl.server.pages.static_files import page_static_path

FORM_PROOF: Final = "token"  #: the field of each form that proves where it was shown
LOGIN_OFFERED: Final = "smartcrawl.login_offered"  #: in a scope: whether a key may log in
THEME_COOKIE: Final = "smartcrawl_theme"
THEMES: Final = ("light", "dark")
LAST_FRAGMENT: Final = 286  #: the status by which htmx ends its requests for a fragment
#: The navigation: groups of paths, by what a visitor wants to do.
GROUPS: Final = (
    ("Find", ("/", "/records", "/changes")),
    ("Set up", ("/crawl", "/sources", "/libraries", "/try")),
    ("Watch", ("/runs", "/status", "/hosts", "/frontier", "/removals")),
    ("Server", ("/docs", "/keys")),
)
_MOST_FIELDS: Final = 1_000
_FORM_TYPE: Final = "application/x-www-form-urlencoded"
_LONGEST_NEXT: Final = 8_000  #: characters of an address to go back to
Endpoint = Callable[[Request], Awaitable[Response] | Response]
Form = Mapping[str, str]


class PageRoute(Route):
    """A route that measures count by its path."""

    def matches(self, scope: AsgiScope) -> tuple[Match, AsgiScope]:
        """Return how well a request fits, and what the scope gets."""
        match, child = super().matches(scope)
        if match is Match.FULL:
            child["route"] = self
        return match, child

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises:
            ApiError: the page does not take its method.
        """
        methods = self.methods or set()
        if scope["method"] not in methods:
            allowed = ", ".join(sorted(methods))
            raise ApiError("METHOD_NOT_ALLOWED", headers={"Allow": allowed})
        await super().handle(scope, receive, send)


@dataclass(frozen=True, slots=True)
class ApiReply:
    """The answer of the API to a page."""

    status: int
    data: dict[str, Any]

    @property
    def error(self) -> ApiError | None:
        """Its error, with the field in which it is; None: it did what was asked."""
        if self.status < 400:
            return None
        found = self.data["error"]
        details = found["details"]
        return ApiError(
            found["code"],
            found["message"],
            field=details.get("field"),
            reason=details.get("reason"),
        )


@dataclass(slots=True)
class Pages:
    """All pages of one server. A module adds its own with ``add`` and answers with ``show``."""

    context: Context
    api: ASGIApp  #: the API behind its limits and keys: it still checks rights and bodies
    describe: Callable[[], dict[str, Any]]  #: returns the OpenAPI description
    routes: list[PageRoute] = field(default_factory=list)
    navigation: dict[str, str] = field(default_factory=dict)  #: names by paths, of GROUPS
    for_administrators: set[str] = field(default_factory=set)  #: paths that others are not offered
    environment: Environment = field(init=False)

    def __post_init__(self) -> None:
        """Make the environment of the templates, which escape what they are given."""
        self.environment = Environment(
            loader=FunctionLoader(_template),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters |= page_markup_filters(self.context.clock)
        self.environment.globals |= {
            "static": page_static_path,
            "release": __version__,
            "themes": THEMES,
            "once": lambda: str(uuid.uuid4()),
            "query": page_query,
            "has_page": lambda path: any(route.path == path for route in self.routes),
        }

    def add(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        method: str = "GET",
        navigated: str = "",
        for_administrators: bool = False,
    ) -> None:
        """Add a page, or with POST the target of a form.

        ``navigated``: its name in the navigation, where GROUPS has its path; "": it is not there.
        ``for_administrators``: it is there for keys of scope admin alone. An endpoint that is no
        coroutine is called in a thread, and may wait for the registry.
        """
        self.routes.append(PageRoute(path, endpoint, methods=[method]))
        if navigated:
            self.navigation[path] = navigated
        if for_administrators:
            self.for_administrators.add(path)

    def show(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> Response:
        """Return a template as a page; a fragment has no frame (``is_page_fragment``)."""
        return HTMLResponse(self.text(request, template, **values), status)

    def text(self, request: Request, template: str, **values: Any) -> str:
        """Return the text of a template, with what every page is given."""
        session = page_session_of(request.scope)
        given = {
            "layout": "fragment.html" if is_page_fragment(request) else "base.html",
            "here": _here(request),
            "path": request.url.path,
            "navigation": self._offered(None if session is None else session.key),
            "key": None if session is None else session.key,
            "keys_required": self.context.server.keys_required,
            "login_offered": request.scope.get(LOGIN_OFFERED, False),
            "may_operate": self.allows(request, Scope.OPERATE),
            "may_administer": self.allows(request, Scope.ADMIN),
            "form_token": page_form_token(request.scope),
            "theme": page_theme(request),
            "now": self.context.clock(),
        }
        return self.environment.get_template(template).render(given | values)

    def _offered(self, key: Key | None) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return the navigation of a visitor: groups of paths with their names."""
        is_admin = key is not None and key.scope is Scope.ADMIN
        hidden = set() if is_admin else self.for_administrators
        return [
            (group, [(path, self.navigation[path]) for path in paths if path not in hidden])
            for group, paths in GROUPS
        ]

    def allows(self, request: Request, needed: Scope) -> bool:
        """Whether the visitor has a scope; who needs no key has all of them."""
        key: Key | None = request.scope["smartcrawl.key"]
        return key is None or key.scope >= needed

    async def call(
        self,
        request: Request,
        method: str,
        path: str,
        body: Any = None,
        *,
        once: str = "",
    ) -> ApiReply:
        """Send a request to the API with the rights of the visitor, and return its answer.

        ``path``: with its query. ``once``: an Idempotency-Key, as the global of templates of this
        name makes one: a form that is sent twice is then carried out once.
        """
        sent = b"" if body is None else json.dumps(body).encode()
        headers = [(b"host", request.headers.get("host", "localhost").encode("latin-1"))]
        headers.append((ORDER_HEADER.lower().encode(), b"page"))
        if sent:
            headers.append((b"content-type", b"application/json"))
        if once:
            headers.append((b"idempotency-key", once.encode("latin-1", "replace")))
        plain, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": request.scope["asgi"],
            "http_version": "1.1",
            "method": method,
            "scheme": request.scope["scheme"],
            "server": request.scope.get("server"),
            "client": request.scope.get("client"),
            "root_path": "",
            "path": plain,
            "raw_path": quote(plain).encode(),
            "query_string": query.encode(),
            "headers": headers,
            "smartcrawl.key": request.scope["smartcrawl.key"],
            "smartcrawl.refused": None,
            "smartcrawl.request_id": request_id_of(request.scope),
        }
        return await _called(self.api, scope, sent)

    async def read(self, request: Request, path: str) -> dict[str, Any]:
        """Return what the API answers to a GET with the rights of the visitor.

        Raises:
            ApiError: it refused.
        """
        reply = await self.call(request, "GET", path)
        if reply.error is not None:
            raise reply.error
        return reply.data

    async def source_names(self, request: Request) -> list[str]:
        """Return the names of the crawled sources that the visitor may read."""
        reader = self.context.reader(request)
        return await self.context.stores.read_little(
            lambda seen: readable_source_names(seen, reader)
        )

    def redirect(self, path: str, typed: str = "") -> Response:
        """Return a redirect to another page of this server, after a form was carried out.

        ``typed``: a query, or a further part of one, that brings typed fields back.
        """
        return RedirectResponse(safe_page_path(path) + typed, 303)


async def _called(app: ASGIApp, scope: AsgiScope, sent: bytes) -> ApiReply:
    pending: list[Message] = [{"type": "http.request", "body": sent, "more_body": False}]
    status, parts = 500, list[bytes]()

    async def receive() -> Message:
        return pending.pop() if pending else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    text = b"".join(parts)
    return ApiReply(status, json.loads(text) if text else {})


def _template(name: str) -> str:
    return files("smartcrawl.server.pages").joinpath("templates", name).read_text("utf-8")


def _here(request: Request) -> str:
    """Return the path and query of a page, to come back to it."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path


def is_page_fragment(request: Request) -> bool:
    """Whether a script asks for a part of a page, to put it into the page that is there."""
    return request.headers.get("hx-request") == "true"


def page_theme(request: Request) -> str:
    """Return the theme that the visitor chose; "": that of the system."""
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else ""


def page_query(given: Mapping[str, object], **changed: object) -> str:
    """Return a query with some parameters changed; those that are empty are left out.

    >>> page_query({"q": "a b", "offset": 10}, offset=None)
    '?q=a+b'
    """
    values = {**given, **changed}
    text = urlencode({name: value for name, value in values.items() if value not in ("", None)})
    return f"?{text}" if text else "?"


def safe_page_path(path: str) -> str:
    """Return a path of this server; ``/`` for anything that leads elsewhere.

    >>> [safe_page_path(x) for x in ("/runs/3?a=b", "//a.example", "/\\\\a.example", "https://a.example/")]
    ['/runs/3?a=b', '/', '/', '/']
    """
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/"
    is_plain = path.isprintable() and "\\" not in path and len(path) <= _LONGEST_NEXT
    if parts.scheme or parts.netloc or not is_plain or not path.startswith("/"):
        return "/"
    return "/" if path.startswith("//") else path


async def read_page_form(request: Request) -> dict[str, str]:
    """Return the fields of a form that was sent; the last value counts.

    Raises:
        ApiError: it is no form, or too large.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise api_invalid_input("Content-Type", "a page takes forms only")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > LIMIT:
            raise ApiError("PAYLOAD_TOO_LARGE", reason=f"a form has at most {LIMIT:,} bytes")
        parts.append(part)
    return await to_thread.run_sync(_fields, b"".join(parts))


def _fields(body: bytes) -> dict[str, str]:
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise api_invalid_input(None, "the form could not be read") from None
    fields = {name: value.replace("\r\n", "\n") for name, value in pairs}
    if any("\x00" in value or "\x00" in name for name, value in fields.items()):
        raise api_invalid_input(None, "fields must not contain NUL")
    return fields


def page_form(request: Request) -> Form:
    """Return the fields of the form that the guard has checked."""
    form: Form = request.scope["smartcrawl.form"]
    return form

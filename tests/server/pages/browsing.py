"""A visitor of the pages without a browser: cookies, forms as they are shown, and parsed pages."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from lxml import html
from lxml.html import HtmlElement
from starlette.types import ASGIApp

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.keys import Scope, make_api_key

HOST = "http://localhost:8080"


class Visitor:
    """Someone with a browser without scripts; requests go to an application of this process."""

    def __init__(self, app: ASGIApp, *, client: str = "127.0.0.1", host: str = HOST) -> None:
        self.app = app
        self._host = host
        self._client = client
        self.headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
        self.cookies = httpx.Cookies()

    def send(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Send one request; cookies are kept."""

        async def sent() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, client=(self._client, 50_000))
            async with httpx.AsyncClient(
                transport=transport, base_url=self._host, cookies=self.cookies
            ) as http:
                headers = self.headers | given.pop("headers", {})
                answer = await http.request(method, path, headers=headers, **given)
                self.cookies = http.cookies
                return answer

        return asyncio.run(sent())

    def get(self, path: str, **given: Any) -> httpx.Response:
        """Ask for a page."""
        return self.send("GET", path, **given)

    def page(self, path: str, status: int = 200, **given: Any) -> HtmlElement:
        """The page at a path."""
        answer = self.get(path, **given)
        assert answer.status_code == status, answer.text
        return parsed(answer)

    def submit(self, path: str, action: str, **typed: str) -> httpx.Response:
        """Fill the form of a page that leads to `action`, and send it as it stands there."""
        form = form_of(self.page(path), action)
        fields = {name: value or "" for name, value in form.fields.items()} | typed
        return self.post(action, fields, headers={"Referer": HOST + path})

    def post(self, action: str, fields: dict[str, str], **given: Any) -> httpx.Response:
        """Send a form."""
        return self.send("POST", action, data=fields, **given)


def parsed(answer: httpx.Response) -> HtmlElement:
    """The page of an answer."""
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    return html.fromstring(answer.text, base_url=str(answer.url))


def form_of(page: HtmlElement, action: str) -> Any:
    """The form of a page that leads to `action`."""
    found = [form for form in page.forms if form.get("action") == action]
    assert found, f"no form leads to {action}"
    return found[0]


def words(element: HtmlElement) -> str:
    """The text of an element on one line."""
    return " ".join(element.text_content().split())


def made_key(folder: Path, scope: Scope = Scope.READ, *sources: str, **more: Any) -> str:
    """Make a key in the registry of a folder, and return its text."""
    database = registry_database(folder / "registry.db")
    connection = database.open()
    with transaction(connection):
        text, _ = make_api_key(connection, "of a test", scope, 0, sources=sources, **more)
    connection.close()
    return text


def logged_in_visitor(app: ASGIApp, folder: Path, scope: Scope, **more: Any) -> Visitor:
    """Return a visitor who logged in with a new key; `more`: as of `made_key`."""
    visitor = Visitor(app)
    key = made_key(folder, scope, **more)
    assert visitor.submit("/login", "/login", key=key).status_code == 303
    return visitor

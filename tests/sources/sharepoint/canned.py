"""A SharePoint of canned answers: a fetch that signs apps in, and answers addresses by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from smartcrawl.model.library import SourceType
from smartcrawl.model.option_groups import SharepointOptions
from smartcrawl.sources.sharepoint.access import LibraryAnswer, LibraryRequest

LOGIN = "https://login.example"
SITE = "https://contoso.example/sites/demo"
LIBRARY = "/sites/demo/Shared Documents"
SECRET = "s3cret~Value-of-the-app"
CLIENT = "6731de76-14a6-49ae-97bc-6eba6914391e"
LIST_ID = "11111111-2222-3333-4444-555555555555"


class Place(NamedTuple):
    source_type: SourceType = SourceType.FILES
    site_url: str = SITE
    url_part: str = "/Shared Documents"
    list_name: str = ""
    filter: str = ""


def options(**more: Any) -> SharepointOptions:
    known: dict[str, Any] = {
        "api": "rest",
        "tenant": "contoso.example",
        "client_id": CLIENT,
        "certificate": None,
        "certificate_password": "",
        "client_secret": SECRET,
        "login_url": LOGIN,
        "graph_url": "https://graph.example/v1.0",
        "ca_file": None,
        "page_size": 5_000,
        "storage": Path("/nowhere"),
        "reports_keep": 0,
    }
    return SharepointOptions(**known | more)


def answer(value: Any, status: int = 200, **headers: str) -> LibraryAnswer:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return LibraryAnswer(status, {"content-type": "application/json", **headers}, body)


class Canned:
    """Answers by a function of path and query; the sign-in's are its own."""

    def __init__(self, answers: Callable[[str, dict[str, str]], LibraryAnswer]) -> None:
        self.requests: list[LibraryRequest] = []
        self.tokens = 0
        self.sign_in: LibraryAnswer | None = None  #: instead of a token
        self.expires = 3_600
        self._answers = answers

    @property
    def asked(self) -> list[LibraryRequest]:
        """The requests to the API."""
        return [one for one in self.requests if not one.url.startswith(LOGIN)]

    def __call__(self, request: LibraryRequest) -> LibraryAnswer:
        self.requests.append(request)
        parts = urlsplit(request.url)
        if request.url.startswith(LOGIN):
            return self._signed_in(parts.path)
        assert request.headers["Authorization"] == f"Bearer token-{self.tokens}"
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        return self._answers(unquote(parts.path), query)

    def _signed_in(self, path: str) -> LibraryAnswer:
        if path.endswith("/.well-known/openid-configuration"):
            base = path.removesuffix("/v2.0/.well-known/openid-configuration")
            return answer({
                "issuer": f"{LOGIN}{base}/v2.0",
                "authorization_endpoint": f"{LOGIN}{base}/oauth2/v2.0/authorize",
                "token_endpoint": f"{LOGIN}{base}/oauth2/v2.0/token",
            })  # fmt: skip
        if self.sign_in is not None:
            return self.sign_in
        self.tokens += 1
        token = f"token-{self.tokens}"
        return answer({"token_type": "Bearer", "expires_in": self.expires, "access_token": token})


def guid(number: int) -> str:
    return f"{number:08x}-0000-4000-8000-000000000000"


def rest_file(number: int, name: str = "", folder: str = LIBRARY, **more: Any) -> dict[str, Any]:
    name = name or f"{number}.txt"
    return {
        "Id": number,
        "UniqueId": guid(number),
        "FileLeafRef": name,
        "FileRef": f"{folder}/{name}",
        "FSObjType": 0,
        "Modified": "2024-01-15T10:30:00Z",
        "File": {"Length": str(number * 10)},
        **more,
    }


def rest_folder(number: int, name: str) -> dict[str, Any]:
    return rest_file(number, name, FSObjType=1, File=None)


class Library:
    """A list of canned items by REST, in pages of ``size``."""

    def __init__(self, items: list[dict[str, Any]], size: int = 2, count: int | None = None):
        self.items = items
        self.size = size
        self.count = len(items) if count is None else count
        self.root = LIBRARY
        self.fields: list[dict[str, Any]] = []
        self.faults: dict[int, Callable[[dict[str, Any]], LibraryAnswer]] = {}  #: by page

    def __call__(self, path: str, query: dict[str, str]) -> LibraryAnswer:
        if path.endswith("/fields"):
            return answer({"value": self.fields})
        if not path.endswith("/items"):
            return answer({
                "Id": LIST_ID,
                "ItemCount": self.count,
                "RootFolder": {"ServerRelativeUrl": self.root},
            })  # fmt: skip
        page = int(query.get("$skiptoken", "1"))
        start = (page - 1) * self.size
        body: dict[str, Any] = {"value": self.items[start : start + self.size]}
        if start + self.size < len(self.items):
            body["odata.nextLink"] = (
                f"https://contoso.example{path.replace(' ', '%20')}?$skiptoken={page + 1}"
            )
        fault = self.faults.get(page)
        return answer(body) if fault is None else fault(body)

"""A site behind a login: sessions that end, five kinds of walls, a form with a token (CSRF)."""

import base64
import re
import threading
from dataclasses import replace
from hashlib import md5, sha256
from itertools import count
from typing import Any, Literal
from urllib.parse import parse_qs, quote

from tests.site_server import Default, Page, Site, html

#: What those who are not logged in get instead of a page.
Wall = Literal["form", "302", "401", "403", "404", "teaser", "elsewhere", "plain"]
WALLS: tuple[Wall, ...] = ("form", "302", "401", "403", "teaser")
USER, PASSWORD = "bot", "geheim-5f2c"
PROOF = "a[href='/account']"
_SHOWN = '<a href="/account">My account</a>'
FORM = (
    "<form action=/login method=post><input type=hidden name=csrf value={token}>"
    "<input name=user><input type=password name=pass><button name=go value=in>"
    "Sign in</button></form>"
)


class Guard:
    """Beside a `Site` in the bases of a class: all pages but robots.txt need a login.

    `lasts`: answers of a session; then it ends. `basic` takes Basic, `token` Bearer or X-Api-Key,
    `cookie` that cookie, and else there is a form at /login. `same_etag`: whether the wall has the
    ETag of the page, as servers have that ignore who asks.
    """

    wall: Wall = "form"
    lasts = 10**9
    basic = False
    digest = False  #: with status 401; a nonce lasts as long as a session
    token: str | None = None
    cookie: str | None = None
    password = PASSWORD
    same_etag = False
    public: frozenset[str] = frozenset({"/robots.txt"})
    without_proof: frozenset[str] = frozenset()
    lands = "/"  #: where a login that succeeds leads
    elsewhere = "http://elsewhere.example/in"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sessions: dict[str, int] = {}  #: answers that are left
        self.attempts = 0  #: logins that were tried
        self.logins = 0  #: that succeeded
        self.given: list[str] = []  #: credentials of each request
        self._numbers = count(1)
        self._token = "t0"
        self._now = threading.local()
        self._counts: set[str] = set()  #: of the nonce
        self._asked = "", ""

    def answer(self: Any, method: str, path: str, headers: dict[str, str]) -> Any:
        place = path.partition("?")[0]
        self.given.append(headers.get("authorization", "") + headers.get("cookie", ""))
        self._asked = method, path
        self._now.page = self._chosen(method, path, place, headers)
        return super().answer(method, path, headers)

    def _chosen(
        self: Any, method: str, path: str, place: str, headers: dict[str, str]
    ) -> Page | None:
        page: Page | None = super()._page(path)
        if place == "/login":
            return self._login(method)
        if place in self.public:
            return page
        is_in = self._is_in(headers)
        if place in ("/logout", "/out") and is_in:
            self.sessions.clear()
        if not is_in:
            return self._instead(path, page)
        return None if page is None else self._shown(place, page)

    def _page(self, path: str) -> Page | None:
        page: Page | None = self._now.page
        return page

    def _is_in(self, headers: dict[str, str]) -> bool:
        authorization = headers.get("authorization", "")
        if self.basic:
            pair = base64.b64encode(f"{USER}:{self.password}".encode()).decode()
            return authorization == f"Basic {pair}" and self._lasts("basic")
        if self.digest:
            return self._digests(authorization)
        if self.token is not None:
            given = authorization.removeprefix("Bearer ") or headers.get("x-api-key", "")
            return given == self.token and self._lasts("token")
        cookies = headers.get("cookie", "")
        if self.cookie is not None:
            return self.cookie in cookies and self._lasts("cookie")
        known = [name for name in self.sessions if f"session={name}" in cookies.split("; ")]
        return bool(known) and self._lasts(known[0])

    def _digests(self, authorization: str) -> bool:
        """Whether a header meets the challenge by its nonce, once for each count (RFC 7616)."""
        parts = dict(re.findall(r'(\w+)="?([^",]*)"?', authorization))
        if parts.get("nonce") not in self.sessions or parts["nc"] in self._counts:
            return False
        self._counts.add(parts["nc"])
        secret = md5(f"{USER}:docs:{self.password}".encode()).hexdigest()
        what = md5(f"{self._asked[0]}:{self._asked[1]}".encode()).hexdigest()
        middle = f"{parts['nonce']}:{parts['nc']}:{parts['cnonce']}:auth"
        met = md5(f"{secret}:{middle}:{what}".encode()).hexdigest() == parts["response"]
        return met and parts["uri"] == self._asked[1] and self._lasts(parts["nonce"])

    def _challenged(self) -> dict[str, str]:
        """Ask for a digest with a new nonce; earlier ones do not count any more."""
        self.attempts += 1
        nonce = f"n{next(self._numbers)}"
        self.sessions, self._counts = {nonce: self.lasts}, set()
        return {"WWW-Authenticate": f'Digest realm="docs", nonce="{nonce}", qop="auth"'}

    def _lasts(self, name: str) -> bool:
        left = self.sessions.setdefault(name, self.lasts)
        self.sessions[name] = left - 1
        return left > 0

    def _login(self: Any, method: str) -> Page:
        if method != "POST":
            self._token = f"t{next(self._numbers)}"
            return Page(html("Sign in").replace("</main>", FORM.format(token=self._token)))
        self.attempts += 1
        fields = {name: value[0] for name, value in parse_qs(self.posted.decode()).items()}
        right = {"csrf": self._token, "user": USER, "pass": self.password, "go": "in"}
        if fields != right:
            return Page(html("Sign in", text="Wrong.").replace("</main>", FORM.format(token="t")))
        self.logins += 1
        name = f"s{next(self._numbers)}"
        self.sessions[name] = self.lasts
        return Page(
            redirect=self.lands, status=302, headers={"Set-Cookie": f"session={name}; Path=/"}
        )

    def _instead(self, path: str, page: Page | None) -> Page:
        form = html("Sign in").replace("</main>", FORM.format(token="t"))
        match self.wall:
            case "302":
                return Page(redirect=f"/login?next={quote(path)}", status=302)
            case "elsewhere":
                return Page(redirect=self.elsewhere, status=302)
            case "401" | "403" | "404":
                header = {"WWW-Authenticate": 'Basic realm="x"'} if self.basic else {}
                header = self._challenged() if self.digest else header
                return Page(
                    "no\n", status=int(self.wall), content_type="text/plain", headers=header
                )
            case "teaser":
                etag = self._etag(page)
                return Page(html("Teaser", text="Log in to read on, dear reader."), etag=etag)
            case "plain":
                return Page(html("Welcome", text="Nothing to see for you here."))
        return Page(form)

    def _shown(self, place: str, page: Page) -> Page:
        is_html = isinstance(page.body, str) and "</main>" in page.body
        if not is_html or place in self.without_proof:
            return page
        body = str(page.body).replace("</main>", f"</main>{_SHOWN}")
        return replace(page, body=body, etag=self._etag(page) if self.same_etag else page.etag)

    def _etag(self, page: Page | None) -> Any:
        if not self.same_etag or page is None:
            return Default.FROM_BODY
        return f'"{sha256(repr(page.body).encode()).hexdigest()[:16]}"'


class GuardedSite(Guard, Site):
    """The same with a socket."""


def pages(number: int = 20) -> dict[str, Page | str]:
    """A home page and others, each with a word of its own."""
    paths = [f"/p{n}" for n in range(number)]
    found: dict[str, Page | str] = {"/": html("Home", *paths, text="All about lamps.")}
    for n, path in enumerate(paths):
        found[path] = html(f"Page {n}", "/", text=f"treasure number {n} is under the lamp {n}")
    return found

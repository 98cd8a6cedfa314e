"""Sign-in pages: in place of a stored page, and walls that new pages meet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from smartcrawl.rules.moves import WALL, chain_of_moves, login_wall
from smartcrawl.rules.shield import MAX_BODY, lowered_source, page_outline

_FORM: Final = re.compile(r'</?form\b|<input\b[^<>]*\btype\s*=\s*"?password["\s/>]')

# Of a title, as in "Sign in - Example".
_BETWEEN: Final = re.compile(r"\s[-–—]\s|[|:·•‹›«»]")
_SIGN_IN: Final = frozenset(
    {
        "sign in", "sign-in", "signin", "log in", "log-in", "login", "log on", "logon",
        "please sign in", "please log in", "login required", "authentication required",
        "anmelden", "bitte anmelden", "einloggen", "inloggen", "logga in", "log ind", "logg inn",
        "connexion", "se connecter", "authentification", "autentificare",
        "iniciar sesión", "inicio de sesión", "iniciar sessão", "accedi",
        "kirjaudu", "kirjaudu sisään", "bejelentkezés", "giriş yap", "oturum aç", "đăng nhập",
        "logowanie", "zaloguj się", "přihlášení", "prihlásenie",
        "вход", "войти", "авторизация", "вхід", "увійти",
        "تسجيل الدخول", "התחברות", "登录", "登入", "登錄", "ログイン", "サインイン", "로그인",
    }
)  # fmt: skip
#: Of the last part of a path, hyphens aside, as in "wp-login.php" or "Special:UserLogin".
_ADDRESSES: Final = frozenset(
    {
        "login", "signin", "logon", "wplogin", "userlogin", "auth", "sso", "anmelden", "anmeldung",
        "connexion", "inloggen", "accedi",
    }
)  # fmt: skip
#: Why a page is a wall that shows no form.
WALL_OF_REDIRECTS: Final = "a wall: new pages redirect there with their addresses"
_SIGN_IN_TO: Final = ("sign in to ", "log in to ", "login to ")


def is_login_form(body: bytes, *, title: str, text_length: int, held_text_length: int) -> bool:
    """Whether a page that was stored with text now shows a login form instead.

    It has less than half of the stored text, and a form with a field for a password. Any form
    counts under a title that says "sign in", alone or beside the site's name, in one of two dozen
    languages. Lengths are characters. Of ``body``, in any encoding that is a superset of ASCII,
    the first 256 KiB count; forms in scripts and comments do not.

    Source: C18.
    """
    if 2 * text_length >= held_text_length:
        return False
    outline = page_outline(lowered_source(body[:MAX_BODY]))
    if says_sign_in(title):
        return "<form" in outline
    return _has_password_form(outline)


def is_sign_in_page(body: bytes, *, title: str) -> bool:
    """Whether a page is a wall by itself: a form with a password field under a sign-in title.

    ``body`` is judged as in ``is_login_form``.

    >>> form = b"<form><input type=password></form>"
    >>> is_sign_in_page(form, title="Sign in"), is_sign_in_page(form, title="Orchard")
    (True, False)
    """
    return says_sign_in(title) and _has_password_form(page_outline(lowered_source(body[:MAX_BODY])))


def _has_password_form(outline: str) -> bool:
    inside = False
    for found in _FORM.finditer(outline):
        tag = found[0]
        if not tag.startswith("<input"):
            inside = tag == "<form"
        elif inside:
            return True
    return False


def says_sign_in(title: str) -> bool:
    """Whether a title says "sign in", alone or beside the name of the site.

    >>> says_sign_in("Sign in - Orchard"), says_sign_in("How to sign in")
    (True, False)
    """
    parts = [part.strip() for part in _BETWEEN.split(title.casefold())]
    return any(part in _SIGN_IN or part.startswith(_SIGN_IN_TO) for part in parts)


class Turned(NamedTuple):
    """A page of a run that a temporary redirect led away."""

    no: int
    url: str
    target: str  #: absolute URL
    target_no: int | None  #: None: out of scope
    is_new: bool  #: whether no content was ever stored


def pages_before_walls(
    turned: Iterable[Turned], sign_in: Container[int], spared: Container[int]
) -> frozenset[int]:
    """Return the numbers of the pages whose temporary redirects lead to a wall.

    ``sign_in``: pages that are sign-in pages. A target whose query names the asked address of
    several new pages is a wall as well. ``spared`` are no walls: seeds, pages that had other
    content, and those that answered 404 or 410.

    >>> asked = [Turned(n, f"http://a.example/{n}", "http://a.example/in?next=/%d" % n, 9, True)
    ...          for n in (1, 2)]
    >>> sorted(pages_before_walls(asked, {9}, ())), sorted(pages_before_walls(asked, (), ()))
    ([1, 2], [1, 2])
    >>> sorted(pages_before_walls(asked[:1], (), ())), sorted(pages_before_walls(asked, (), {9}))
    ([], [])
    """
    pages = {page.no: page for page in turned}
    met = {page.no for page in _naming_a_wall(pages.values(), spared)}
    hops = {page.no: page.target_no for page in pages.values()}
    for no in pages:
        passed, _ = chain_of_moves(no, hops)
        if any(hop in sign_in or hop in met for hop in passed):
            met.add(no)
    return frozenset(met)


def walls_of_redirects(turned: Iterable[Turned], spared: Container[int]) -> frozenset[int]:
    """Return the numbers of the walls in scope that are walls because of their redirects.

    ``spared`` as in ``pages_before_walls``.

    >>> asked = [Turned(n, f"http://a.example/{n}", "http://a.example/in?next=/%d" % n, 9, True)
    ...          for n in (1, 2)]
    >>> sorted(walls_of_redirects(asked, ())), sorted(walls_of_redirects(asked[:1], ()))
    ([9], [])
    """
    naming = _naming_a_wall(turned, spared)
    return frozenset(page.target_no for page in naming if page.target_no is not None)


def _naming_a_wall(turned: Iterable[Turned], spared: Container[int]) -> list[Turned]:
    """Return the new pages that name themselves to a target which several of them share."""
    naming = [
        page
        for page in turned
        if page.is_new and page.target_no not in spared and names_asked_page(page.url, page.target)
    ]
    shared = Counter(login_wall(page.target) for page in naming)
    return [page for page in naming if shared[login_wall(page.target)] >= WALL]


def names_asked_page(url: str, target: str) -> bool:
    """Whether the query of a redirect's target names the address that was asked.

    >>> names_asked_page("http://a.example/x", "http://b.example/in?returnUrl=%2Fx")
    True
    >>> names_asked_page("http://a.example/", "http://a.example/en/?from=/")
    False
    """
    asked = urlsplit(url)
    path = f"{asked.path}?{asked.query}" if asked.query else asked.path
    names = {url, path, path.strip("/")}
    values = {value for _, value in parse_qsl(urlsplit(target).query)}
    return path.strip("/") != "" and not names.isdisjoint(values | {unquote(v) for v in values})


def is_sign_in_address(url: str) -> bool:
    """Whether an address is that of a sign-in page, by the last part of its path.

    >>> is_sign_in_address("http://a.example/user/Login?next=/x")
    True
    >>> is_sign_in_address("http://a.example/blogin")
    False
    """
    last = urlsplit(url).path.rstrip("/").rpartition("/")[2].casefold().replace("-", "")
    return not _ADDRESSES.isdisjoint(re.split(r"[.:_]", last))


def acts_on_page(url: str, origin: str) -> bool:
    """Whether an address names the page that links to it, as the form to edit that page does.

    >>> acts_on_page("http://a.example/edit/Lamp", "http://a.example/wiki/Lamp")
    True
    >>> acts_on_page("http://a.example/index.php?title=Lamp&action=edit", "http://a.example/w/Lamp")
    True
    >>> acts_on_page("http://a.example/docs/a", "http://a.example/docs/")
    False
    """
    name = urlsplit(origin).path.rstrip("/").rpartition("/")[2]
    parts = urlsplit(url)
    last = parts.path.rstrip("/").rpartition("/")[2]
    return name != "" and name in (last, *(value for _, value in parse_qsl(parts.query)))


class Met(NamedTuple):
    """A page of a run that met a wall."""

    url: str
    matters: bool  #: whether it is a seed, or content is stored
    aside: bool  #: whether it is a sign-in page itself, or acts on the page that links to it


def walls_against_seal(met: Sequence[Met], *, visits: int) -> tuple[str, ...]:
    """Return the addresses that met a wall, if they make their run incomplete.

    They do where one of them is a seed or has content, or where at least two, and a tenth of the
    run, met a wall.

    >>> shop, form = Met("/shop", False, False), Met("/login", False, True)
    >>> walls_against_seal([shop, form], visits=10), walls_against_seal([shop, shop], visits=20)
    ((), ('/shop', '/shop'))
    >>> walls_against_seal([shop, shop], visits=21)
    ()
    >>> walls_against_seal([form, Met("/page", True, False)], visits=99)
    ('/page',)
    """
    mattering = tuple(page.url for page in met if page.matters)
    missed = tuple(page.url for page in met if not page.aside)
    many = len(missed) >= WALL and 10 * len(missed) >= visits
    return missed if many else mattering

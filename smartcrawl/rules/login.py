"""Sign-in pages and walls without a login, and what a crawl that logs in may believe."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from enum import StrEnum, auto
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from smartcrawl.rules.model import Outcome
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


# A source that logs in

#: The kinds of a login, as sources.toml has them.
KINDS_OF_LOGIN: Final = (
    "form", "cookie", "basic", "bearer", "header", "digest", "client_certificate",
    "oauth2_client",
)  # fmt: skip
MOST_ENDS: Final = 2  #: ends of a session in one run; after the last one nothing more is asked
FIRST_WAIT: Final = 3_600  #: seconds after a refused login
LONGEST_WAIT: Final = 86_400  #: seconds
_NOT_A_USER: Final = re.compile(r"pass|pwd|secret|token|pin\b|otp|code|key", re.IGNORECASE)
#: Of a part of a path, or of a value in a query; hyphens and underscores aside.
_LOGOUT_ADDRESSES: Final = frozenset(
    {
        "logout", "logoff", "signout", "signoff", "userlogout", "endsession", "logmeout",
        "abmelden", "abmeldung", "ausloggen", "deconnexion", "cerrarsesion", "uitloggen",
        "afmelden", "loggaut", "wyloguj", "odhlasit",
    }
)  # fmt: skip
#: Pieces of which each of them has one: few addresses are looked at more closely.
_LOGOUT_PIECES: Final = ("log", "sign", "ses", "meld", "connex", "odhla")
_LOGOUT_WORDS: Final = frozenset(
    {
        "log out", "logout", "log-out", "log off", "logoff", "sign out", "signout", "sign-out",
        "sign off", "abmelden", "ausloggen", "uitloggen", "afmelden", "logga ut", "log ud",
        "logg ut", "déconnexion", "se déconnecter", "me déconnecter", "cerrar sesión",
        "cerrar la sesión", "terminar sessão", "encerrar sessão", "sair", "esci", "disconnetti",
        "kirjaudu ulos", "kijelentkezés", "çıkış yap", "oturumu kapat", "đăng xuất", "wyloguj",
        "wyloguj się", "odhlásit", "odhlásit se", "odhlásiť", "deconectare", "выйти", "выход",
        "вийти", "تسجيل الخروج", "התנתקות", "退出登录", "登出", "注销",
        "ログアウト", "サインアウト", "로그아웃",
    }
)  # fmt: skip


class Proof(StrEnum):
    """What the proof page says of a session."""

    HELD = auto()  #: the session counts
    ENDED = auto()  #: it ended, or the login does not count
    UNKNOWN = auto()  #: no answer that says either


def judge_proof(status: int | None, *, shows: bool | None) -> Proof:
    """Return what an answer of the proof page says, which was asked without validators.

    ``status``: None: there was no answer. ``shows``: whether it shows the proof; None: the login
    has none, and a 2xx is the proof.

    >>> judge_proof(200, shows=True), judge_proof(200, shows=False), judge_proof(503, shows=None)
    (<Proof.HELD: 'held'>, <Proof.ENDED: 'ended'>, <Proof.UNKNOWN: 'unknown'>)
    """
    if status is None or status in (408, 425, 429) or status >= 500:
        return Proof.UNKNOWN
    held = 200 <= status < 300 and shows is not False
    return Proof.HELD if held else Proof.ENDED


#: Outcomes that age nothing and store nothing, whatever the session.
_HARMLESS: Final = frozenset({Outcome.TRANSIENT, Outcome.UNREACHABLE, Outcome.EXCLUDED})


def waits_for_proof(outcome: Outcome, *, shows: bool) -> bool:
    """Whether a lost session could have brought an answer, so that the proof page is asked first.

    ``shows``: whether the answer itself shows the proof.

    >>> waits_for_proof(Outcome.NOT_MODIFIED, shows=False)
    True
    >>> waits_for_proof(Outcome.CHANGED, shows=True)
    False
    """
    return not shows and outcome not in _HARMLESS


def lacks_proof(outcome: Outcome, *, is_page: bool, shows: bool | None) -> bool:
    """Whether a page fails alone, because the session counts and the page does not show it.

    ``is_page``: whether its body is HTML; files carry no proof. ``shows``: None: the login has no
    proof.

    >>> lacks_proof(Outcome.CHANGED, is_page=True, shows=False)
    True
    >>> lacks_proof(Outcome.CHANGED, is_page=False, shows=False)
    False
    """
    return outcome is Outcome.CHANGED and is_page and shows is False


def login_wait(refusals: int) -> int:
    """Return the seconds after which a login may be tried that was refused so often in a row.

    >>> [login_wait(refusals) // 3600 for refusals in (1, 2, 3, 4, 5, 6, 99)]
    [1, 2, 4, 8, 16, 24, 24]
    """
    return min(LONGEST_WAIT, FIRST_WAIT << min(refusals - 1, 5))


def is_logout_address(url: str) -> bool:
    """Whether an address logs out, by a part of its path or a value in its query.

    >>> is_logout_address("https://a.example/users/sign_out")
    True
    >>> is_logout_address("https://a.example/wp-login.php?action=logout&nonce=8")
    True
    >>> is_logout_address("https://a.example/docs/how-to-log-out")
    False
    """
    if "%" not in url:
        bare = _bare(url)
        for piece in _LOGOUT_PIECES:  # a request for each page comes by: a generator costs more
            if piece in bare:
                break
        else:
            return False
    parts = urlsplit(url)
    words = [word for part in parts.path.split("/") for word in re.split(r"[.:;]", part)]
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        words += [name, value]
    return any(_bare(word) in _LOGOUT_ADDRESSES for word in words)


def _bare(word: str) -> str:
    return word.casefold().replace("-", "").replace("_", "")


def says_log_out(anchor: str) -> bool:
    """Whether the text of a link says "log out", in one of two dozen languages.

    >>> says_log_out(" Log out "), says_log_out("How to log out")
    (True, False)
    """
    return " ".join(anchor.casefold().split()).strip("»›→ ") in _LOGOUT_WORDS


def first_user_field(fields: Mapping[str, str]) -> str | None:
    """Return the first field of a login form that has no secret, by its name and its variable's.

    >>> first_user_field({"pass": "A_PASSWORD", "user": "A_USER"})
    'user'
    >>> first_user_field({"key": "A_KEY"}) is None
    True
    """
    for field, variable in fields.items():
        if not (_NOT_A_USER.search(field) or _NOT_A_USER.search(variable)):
            return field
    return None


def cookies_of_file(text: str, host: str) -> str:
    r"""Return the header Cookie of a file: of a cookies.txt for a host, or the header itself.

    >>> cookies_of_file(".a.example\tTRUE\t/\tTRUE\t0\tsession\t8c1f\n", "docs.a.example")
    'session=8c1f'
    >>> cookies_of_file("session=8c1f; theme=dark\n", "a.example")
    'session=8c1f; theme=dark'
    """
    rows = [row.removeprefix("#HttpOnly_").split("\t") for row in text.splitlines()]
    kept = [row for row in rows if len(row) == _COLUMNS and not row[0].startswith("#")]
    if not kept:
        return "; ".join(line.strip() for line in text.splitlines() if line.strip())
    named = [row for row in kept if _is_of_host(row[0], host)]
    return "; ".join(f"{row[5]}={row[6].strip()}" for row in named)


_COLUMNS: Final = 7  #: of a cookies.txt


def _is_of_host(domain: str, host: str) -> bool:
    name = domain.removeprefix(".").casefold()
    return host == name or (domain.startswith(".") and host.endswith(f".{name}"))


class DigestChallenge(NamedTuple):
    """What a server asks of a digest (RFC 7616)."""

    realm: str
    nonce: str
    algorithm: str  #: MD5 or SHA-256, as the server spells it
    opaque: str | None
    has_qop: bool  #: whether the digest covers a count and a nonce of ours


_DIGESTS: Final = {"sha-256": hashlib.sha256, "md5": hashlib.md5}  #: the best first
_PART: Final = re.compile(r'(?<![A-Za-z-])([A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


def digest_challenge(lines: Iterable[str]) -> DigestChallenge | None:
    """Return the best challenge of the WWW-Authenticate lines of an answer that can be met.

    >>> digest_challenge(['Basic realm="x"', 'Digest realm="docs", nonce="8c", qop="auth"'])
    DigestChallenge(realm='docs', nonce='8c', algorithm='MD5', opaque=None, has_qop=True)
    """
    found: dict[str, DigestChallenge] = {}
    for line in lines:
        scheme, _, rest = line.strip().partition(" ")
        if scheme.casefold() != "digest":
            continue
        parts = {name.casefold(): quoted or bare for name, quoted, bare in _PART.findall(rest)}
        algorithm = parts.get("algorithm", "MD5")
        offered = [word.strip().casefold() for word in parts.get("qop", "").split(",") if word]
        if "nonce" not in parts or (offered and "auth" not in offered):
            continue
        found[algorithm.casefold()] = DigestChallenge(
            parts.get("realm", ""), parts["nonce"], algorithm, parts.get("opaque"), bool(offered)
        )
    return next((found[name] for name in _DIGESTS if name in found), None)


def digest_authorization(
    challenge: DigestChallenge,
    user: str,
    password: str,
    asked: tuple[str, str],
    ours: tuple[int, str],
) -> str:
    """Return the header Authorization that meets a challenge.

    ``asked``: method and URL. ``ours``: the count of requests with this nonce, and a nonce of ours.

    Source: RFC 7616 section 3.4.
    """
    (method, url), (count, cnonce) = asked, ours
    parts = urlsplit(url)
    uri = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"

    def digest(text: str) -> str:
        return _DIGESTS[challenge.algorithm.casefold()](text.encode()).hexdigest()

    secret, what = digest(f"{user}:{challenge.realm}:{password}"), digest(f"{method}:{uri}")
    middle = (
        f"{challenge.nonce}:{count:08x}:{cnonce}:auth" if challenge.has_qop else challenge.nonce
    )
    fields = {
        "username": user, "realm": challenge.realm, "nonce": challenge.nonce, "uri": uri,
        "response": digest(f"{secret}:{middle}:{what}"),
    }  # fmt: skip
    if challenge.opaque is not None:
        fields["opaque"] = challenge.opaque
    if challenge.has_qop:
        fields["cnonce"] = cnonce
    listed = [f'{name}="{_escaped(value)}"' for name, value in fields.items()]
    listed.append(f"algorithm={challenge.algorithm}")
    if challenge.has_qop:
        listed += ["qop=auth", f"nc={count:08x}"]
    return f"Digest {', '.join(listed)}"


def _escaped(value: str) -> str:
    return value if "\\" in value else value.replace('"', '\\"')

"""The login of a source: the table ``[sources.NAME.auth]`` of sources.toml."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, PrivateAttr, ValidationError

from smartcrawl.model.exceptions import SettingError, meant_word
from smartcrawl.model.secrets import (
    FILE,
    Secret,
    check_file_name,
    check_secret_name,
    read_secret,
    secret_path,
)
from smartcrawl.model.urls import url_origin
from smartcrawl.rules.login import KINDS_OF_LOGIN, first_user_field
from smartcrawl.sources.client_certificates import ClientCertificate, check_client_certificate
from smartcrawl.sources.fields import LIST, Patterns, Selector, declared_web_address

#: The keys of each kind beside ``origins``, ``logged_in`` and ``logout_patterns``: those that it
#: needs, each group with one of several.
_NEEDS: Final[Mapping[str, tuple[tuple[str, ...], ...]]] = {
    "form": (("login",), ("fields",), ("logged_in",)),
    "cookie": (("cookie", "cookie_file"), ("logged_in",)),
    "basic": (("user",), ("password",)),
    "digest": (("user",), ("password",)),
    "bearer": (("token",),),
    "header": (("headers",),),
    "client_certificate": (("certificate",), ("key",)),
    "oauth2_client": (("token_url",), ("client_id",), ("client_secret",)),
}
_MAY: Final[Mapping[str, tuple[str, ...]]] = {"oauth2_client": ("scope",)}
_OF_ALL: Final = ("kind", "origins", "logged_in", "logout_patterns")
_BOUND_TO_CONNECTIONS: Final = frozenset({"ntlm", "spnego", "negotiate", "kerberos"})
_REMEDY_OF_BOUND: Final = (
    "NTLM and SPNEGO log in a connection, not a request: run a local proxy that logs in, such as"
    " cntlm or px, and crawl through it, with http_proxy and https_proxy"
)
#: Headers that the crawl itself writes.
_OURS: Final = frozenset(
    {
        "accept-encoding", "connection", "content-length", "cookie", "host", "if-modified-since",
        "if-none-match", "range", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
#: Keys with the name of one secret each.
_SINGLE: Final = (
    "user",
    "password",
    "token",
    "cookie",
    "certificate",
    "key",
    "client_id",
    "client_secret",
)
_OF_SEVERAL_LINES: Final = frozenset({"cookie_file", "certificate", "key"})
_TOKEN: Final = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz")
#: An example of each key that a kind needs.
_EXAMPLES: Final = {
    "login": 'the address of the login form, as in "https://docs.example.com/login"',
    "fields": 'the fields of the form, as in { user = "DOCS_USER", password = "DOCS_PASSWORD" }',
    "logged_in": "a CSS selector of what each page shows only to those who are logged in, as"
    " in \"a[href='/logout']\"",
    "cookie": 'the name of the variable that has the header Cookie, as in "DOCS_COOKIE"',
    "user": 'the name of the variable that has the user, as in "DOCS_USER"',
    "password": 'the name of the variable that has the password, as in "DOCS_PASSWORD"',
    "token": 'the name of the variable that has the token, as in "DOCS_TOKEN"',
    "headers": 'the headers, as in { X-Api-Key = "DOCS_KEY" }',
    "token_url": 'the address that gives tokens, as in "https://login.example.com/oauth2/token"',
    "client_id": 'the name of the variable that has it, as in "DOCS_CLIENT"',
    "client_secret": 'the name of the variable that has it, as in "DOCS_CLIENT_SECRET"',
    "certificate": 'the file that has it in PEM, as in "file:/etc/smartcrawl/docs.pem"',
    "key": 'the file that has the private key in PEM, as in "file:/etc/smartcrawl/docs.key"',
}


def _origin(text: str) -> str:
    """Return a declared origin in its usual spelling.

    Raises:
        ValueError: it is more or less than scheme, host and port.
    """
    parts = urlsplit(url := declared_web_address(text))
    if parts.path != "/" or parts.query:
        raise ValueError(f"is {text!r}: expected scheme and host alone: write {url_origin(url)}")
    return url_origin(url)


def _header_name(name: str) -> str:
    if not name or not _TOKEN.issuperset(name.lower()):
        raise ValueError(f"is {name!r}, which is no name of a header")
    if name.lower() in _OURS:
        remedy = '; take kind = "cookie"' if name.lower() == "cookie" else ""
        raise ValueError(f"is {name!r}, a header that the crawl itself writes{remedy}")
    return name


SecretName = Annotated[str, AfterValidator(check_secret_name)]
_FileName = Annotated[str, AfterValidator(check_file_name)]
_Origins = Annotated[tuple[Annotated[str, AfterValidator(_origin)], ...], LIST]
_Address = Annotated[str, AfterValidator(declared_web_address)]


class SourceAuth(BaseModel):
    """How a crawl logs in, with the names of secrets and without any secret.

    Source: docs/sources.md; ADR 146.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    kind: str
    origins: _Origins = ()  #: that get the credentials; empty: those of the seeds
    user: SecretName | None = None
    password: SecretName | None = None
    token: SecretName | None = None
    headers: dict[Annotated[str, AfterValidator(_header_name)], SecretName] = {}
    cookie: SecretName | None = None
    cookie_file: str | None = None  #: a file of cookies as browsers export them
    certificate: _FileName | None = None  #: PEM, with those of its authorities; no secret
    key: _FileName | None = None  #: PEM: the private key of ``certificate``
    token_url: _Address | None = None  #: that gives a token to the client
    client_id: SecretName | None = None
    client_secret: SecretName | None = None
    scope: str | None = None  #: of the token
    login: _Address | None = None
    fields: dict[str, SecretName] = {}  #: of the form at ``login``
    logged_in: Selector | None = None  #: CSS: what pages show to those who are logged in
    logout_patterns: Patterns = ()  #: beside the usual addresses and link texts
    _folder: Path | None = PrivateAttr(None)

    @property
    def client_certificate(self) -> ClientCertificate | None:
        """The certificate that servers see; None: it belongs to another kind."""
        if self.certificate is None or self.key is None:
            return None
        return ClientCertificate(
            secret_path(self.certificate, self._folder), secret_path(self.key, self._folder)
        )

    @property
    def secrets(self) -> dict[str, str]:
        """The names of all secrets, each by its place in the table."""
        single = {key: getattr(self, key) for key in _SINGLE}
        if self.cookie_file is not None:
            single["cookie_file"] = f"{FILE}{self.cookie_file}"
        several = {f"headers.{name}": secret for name, secret in self.headers.items()}
        several |= {f"fields.{name}": secret for name, secret in self.fields.items()}
        return {key: name for key, name in (single | several).items() if name is not None}

    def read_secrets(self, source: str) -> dict[str, Secret]:
        """Return the secrets by their places in the table.

        Raises:
            SettingError: one of them cannot be had; the message has all of those, and the remedies.
        """
        found, problems = dict[str, Secret](), list[str]()
        for key, name in self.secrets.items():
            try:
                lines, public = key in _OF_SEVERAL_LINES, key == "certificate"
                found[key] = read_secret(name, self._folder, lines=lines, public=public)
                self._check(key, found[key].reveal())
            except ValueError as error:
                problems.append(f"[sources.{source}.auth] {key} cannot be had, as {error}")
        if "certificate" in found and "key" in found:
            try:
                check_client_certificate(found["certificate"].reveal(), found["key"].reveal())
            except ValueError as error:
                problems.append(f"[sources.{source}.auth] certificate and key: {error}")
        if problems:
            raise SettingError("\n".join(problems))
        return found

    def _check(self, key: str, value: str) -> None:
        """Check that a secret can be sent as its kind has it; it is not repeated.

        Raises:
            ValueError: it cannot.
        """
        if self.kind in ("bearer", "header", "cookie") and not value.isascii():
            raise ValueError("a header takes ASCII characters alone")
        if self.kind == "basic" and key == "user" and ":" in value:
            raise ValueError("a user may have no colon")

    def identity(self, secrets: Mapping[str, Secret], origins: tuple[str, ...]) -> bytes:
        """Return a digest (16 bytes) of who asks: kind, origins, and the user.

        Where there is no user, the names of the secrets count. A new password is no other user.
        """
        users: list[str] = [key for key in ("user", "client_id") if key in self.secrets]
        key = users[0] if users else None
        if (field := first_user_field(self.fields)) is not None:
            key = f"fields.{field}"
        who = [secrets[key].reveal()] if key is not None else sorted(self.secrets.items())
        parts = [self.kind, sorted(origins), who]
        return hashlib.sha256(json.dumps(parts).encode()).digest()[:16]


def declared_auth(where: str, table: object, folder: Path | None) -> SourceAuth:
    """Return the login of a table; ``where`` names the table of its source, as in [sources.docs].

    Raises:
        ValueError: with one line for each problem; none of them shows a value that may be a secret.
    """
    where = f"{where.removesuffix(']')}.auth]"
    if not isinstance(table, dict):
        raise ValueError(f"{where}: expected a table; write its keys below a line {where}")
    kind = table.get("kind")
    if kind not in KINDS_OF_LOGIN:
        raise ValueError(f"{where} kind {_wrong_kind(kind)}")
    needed = _NEEDS[kind]
    own = (*(key for keys in needed for key in keys), *_MAY.get(kind, ()))
    known = dict.fromkeys((*_OF_ALL, *own))
    problems = [
        f"{where} {key} {_unknown(key, kind, list(known))}" for key in table if key not in known
    ]
    problems += [
        f"{where} {keys[0]} is missing: give {_EXAMPLES[keys[0]]}"
        for keys in needed
        if not any(table.get(key) for key in keys)
    ]
    try:
        given = {key: value for key, value in table.items() if key in known}
        auth = SourceAuth.model_validate(given)
    except ValidationError as error:
        problems += _problems(where, error)
    if problems:
        raise ValueError("\n".join(problems))
    auth._folder = folder
    return auth


def auth_problems(auth: SourceAuth, seeds: tuple[str, ...], where: str) -> list[str]:
    """Return what is wrong with a login beside its own table: the seeds do not fit to it."""
    where = f"{where.removesuffix(']')}.auth]"
    own = tuple(dict.fromkeys(map(url_origin, seeds)))
    problems = []
    plain = [origin for origin in auth.origins or own if not origin.startswith("https://")]
    if plain and auth.certificate is not None:
        problems.append(
            f"{where} origins: {plain[0]} begins with http://, and a certificate is shown by https"
            " alone; begin the seeds with https://"
        )
    elif not auth.origins:
        if plain:
            problems.append(
                f"{where} origins is missing: a seed begins with http://, where anybody on the way"
                f" reads the credentials; if you want that, write origins = {json.dumps(plain)}"
            )
    elif not set(auth.origins) & set(own):
        problems.append(
            f"{where} origins: no seed is on one of them, and a seed shows whether the login"
            " counts; add a seed"
        )
    origins = auth.origins or own
    if auth.token_url is not None and not auth.token_url.startswith("https://"):
        place = url_origin(auth.token_url)
        if place not in origins:
            problems.append(
                f"{where} token_url begins with http://, where anybody on the way reads the secret;"
                f" if you want that, write origins = {json.dumps([*origins, place])}"
            )
    if auth.login is not None and url_origin(auth.login) not in origins:
        problems.append(
            f"{where} login: {url_origin(auth.login)} is none of the origins that get the"
            f" credentials; add it to origins = {json.dumps([*origins, url_origin(auth.login)])}"
        )
    return problems


def _wrong_kind(kind: object) -> str:
    takes = f"expected {', '.join(KINDS_OF_LOGIN[:-1])} or {KINDS_OF_LOGIN[-1]}"
    if kind is None:
        return f"is missing: {takes}"
    if isinstance(kind, str) and kind.lower() in _BOUND_TO_CONNECTIONS:
        return f"is {kind!r}: {_REMEDY_OF_BOUND}"
    return f"is {kind!r}, which this version does not know: {takes}"


def _unknown(key: str, kind: str, known: list[str]) -> str:
    of_others = any(key in keys for other in _NEEDS.values() for keys in other)
    what = "belongs to another kind" if of_others else f"is unknown{meant_word(key, known)}"
    return f"{what}; known for the kind {kind} are {', '.join(known)}"


def _problems(where: str, error: ValidationError) -> list[str]:
    """Return pydantic's errors as sentences, without the values, which may be secrets."""
    lines = []
    for found in error.errors(include_input=False):
        key = ".".join(str(part) for part in found["loc"] if part != "[key]")
        context: dict[str, Any] = found.get("ctx", {})
        if found["type"] == "value_error":
            why = str(context["error"])
        else:
            takes = {
                "string_type": "a text in quotes",
                "tuple_type": 'a list of texts, as in ["a", "b"]',
                "dict_type": 'a table, as in { user = "DOCS_USER" }',
            }
            why = f"takes {takes.get(found['type'], 'another value: ' + found['msg'])}"
        lines.append(f"{where} {key} {why}")
    return lines

"""Targets of notices: the tables ``[notify.NAME]`` of smartcrawl.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError, meant_word
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.secrets import VARIABLE, check_secret_name
from smartcrawl.model.setting_values import MOST_NUMBER
from smartcrawl.model.urls import request_url
from smartcrawl.rules.notices import EVENTS, Event, Wish

KINDS: Final = ("webhook", "mail", "apprise")
_COMMON: Final = ("events", "sources", "patterns", "min_changes", "min_share")
#: The keys that a target takes beside those of all, by its kind.
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "webhook": ("secret",),
    "mail": ("server", "from", "user", "password"),
    "apprise": (),
}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAIL: Final = re.compile(r"[^\s@<>,;\"]+@[^\s@<>,;\"]+")
_SERVERS: Final = {"smtp": 25, "submission": 587, "smtps": 465}  #: default ports by scheme
_MOST_PATTERNS: Final = 100
_MOST_PATTERN: Final = 1_000  #: characters


@dataclass(frozen=True, slots=True)
class MailServer:
    """A server that takes mails."""

    scheme: str  #: smtp (TLS if it offers that), submission (TLS), or smtps
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class NotifyTarget:
    """One target. A secret is the name of a variable, or of a private file."""

    name: str
    kind: str  #: one of KINDS
    place: str  #: URL, or the variable that has it; address of a mail; variable of apprise's URL
    wish: Wish
    secret: str | None = None  #: of a webhook, or the password of a mail's user
    server: MailServer | None = None
    sender: str = ""
    user: str | None = None
    folder: Path | None = None  #: where relative paths of private files start


def notify_targets(tables: Any, folder: Path) -> tuple[list[NotifyTarget], list[str]]:
    """Return the targets of the tables below ``notify``, and what is wrong with others.

    ``folder`` has the file.
    """
    if not isinstance(tables, dict):
        return [], ["notify: expected tables, each headed [notify.NAME]"]
    targets, problems = [], []
    for name, table in tables.items():
        try:
            targets.append(_target(name, table, folder))
        except (SettingError, ValueError) as error:
            problems.append(f"[notify.{redacted_text(name[:64])}] {error}")
    return targets, problems


def _target(name: str, table: Any, folder: Path) -> NotifyTarget:
    if not _NAME.fullmatch(name):
        raise ValueError("a name takes up to 64 letters, digits, '_' and '-': rename it")
    if not isinstance(table, dict):
        raise ValueError(f"expected a table; write its keys below a line [notify.{name}]")
    kinds = [kind for kind in KINDS if kind in table]
    if len(kinds) != 1:
        raise ValueError('takes one of webhook, mail and apprise, as in webhook = "https://…"')
    kind = kinds[0]
    known = (kind, *_KEYS[kind], *_COMMON)
    for key in table:
        if key not in known:
            hint = meant_word(key, known)
            raise ValueError(f"{key}: unknown key{hint}; known are {', '.join(known)}")
    wish = Wish(
        events=_events(table.get("events")),
        sources=frozenset(_texts("sources", table.get("sources", []))),
        min_changes=_number("min_changes", table.get("min_changes", 1)),
        min_share=_share("min_share", table.get("min_share", 0)),
        has_page=_patterns(_texts("patterns", table.get("patterns", []))),
    )
    place = _text(kind, table[kind])
    if kind == "webhook":
        if "secret" not in table:
            raise ValueError(
                "secret is missing: give the name of the variable that has it, as in secret ="
                ' "HOOK_SECRET", which signs each notice'
            )
        return NotifyTarget(
            name, kind, _webhook(place), wish, _secret("secret", table["secret"]), folder=folder
        )
    if kind == "apprise":
        if not VARIABLE.fullmatch(place):
            raise ValueError(
                "apprise takes the name of the variable that has the URL of the service, as in"
                ' "OPS_APPRISE": such a URL has a secret'
            )
        return NotifyTarget(name, kind, place, wish, folder=folder)
    return _mail(name, place, table, wish, folder)


def _mail(
    name: str, place: str, table: Mapping[str, Any], wish: Wish, folder: Path
) -> NotifyTarget:
    sender = _text("from", table.get("from", "smartcrawl@localhost"))
    for key, address in (("mail", place), ("from", sender)):
        if not _MAIL.fullmatch(address) or not address.isprintable():
            raise ValueError(f"{key} is {address!r}: expected one address, as in ops@example.com")
    if ("user" in table) != ("password" in table):
        raise ValueError("user and password belong together: give both, or none")
    user = _text("user", table["user"]) if "user" in table else None
    password = _secret("password", table["password"]) if "password" in table else None
    server = _server(_text("server", table.get("server", "smtp://localhost")))
    if user is not None and server.scheme == "smtp":
        raise ValueError(
            "user and password go over TLS only: write the server as submission://HOST or"
            " smtps://HOST"
        )
    return NotifyTarget(name, "mail", place, wish, password, server, sender, user, folder)


def _server(text: str) -> MailServer:
    try:
        parts = urlsplit(text)
        port = parts.port or _SERVERS[parts.scheme]
        if parts.hostname and not parts.path.strip("/") and parts.username is None:
            return MailServer(parts.scheme, parts.hostname, port)
    except (ValueError, KeyError):
        pass
    raise ValueError(
        f"server is {redacted_text(text)!r}: expected smtp://HOST, submission://HOST or"
        " smtps://HOST, with :PORT where it is another one"
    )


def _webhook(text: str) -> str:
    if VARIABLE.fullmatch(text):
        return text
    url = request_url(text)
    if url is None or "@" in urlsplit(text).netloc:
        raise ValueError(
            f"webhook is {redacted_text(text)!r}: expected an http or https address without"
            " credentials, or the name of the variable that has it, as in HOOK_URL"
        )
    if redacted_text(url) != url:
        raise ValueError(
            "webhook has a secret: put the address into a variable, and give the name of that, as"
            ' in webhook = "HOOK_URL"'
        )
    return url


def _secret(key: str, value: Any) -> str:
    try:
        return check_secret_name(_text(key, value))
    except ValueError as error:
        raise ValueError(f"{key} {error}") from None


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{key} is {redacted_text(repr(value))}: expected a text in quotes")
    return value.strip()


def _number(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_NUMBER:
        raise ValueError(f"{key} is {value!r}: expected a whole number of at least 1")
    return value


def _share(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{key} is {value!r}: expected a number from 0 to 1, as in 0.1")
    return float(value)


def _texts(key: str, value: Any) -> Sequence[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise ValueError(f'{key} is {value!r}: expected a list of texts, as in ["a", "b"]')
    return value


def _events(value: Any) -> frozenset[Event]:
    if value is None:
        return frozenset(EVENTS)
    words = _texts("events", value)
    for word in words:
        if word not in EVENTS:
            hint = meant_word(word, EVENTS)
            raise ValueError(f"events has {word!r}{hint}; known are {', '.join(EVENTS)}")
    return frozenset(Event(word) for word in words)


def _patterns(texts: Sequence[str]) -> Any:
    """Return whether one of the patterns is found in an address; None without patterns."""
    if not texts:
        return None
    if len(texts) > _MOST_PATTERNS or max(map(len, texts)) > _MOST_PATTERN:
        raise ValueError(
            f"patterns: expected up to {_MOST_PATTERNS} of up to {_MOST_PATTERN:,} characters"
        )
    import re2  # noqa: PLC0415  # most installations have no target with patterns

    compiled = []
    for text in texts:
        try:
            compiled.append(re2.compile(text))
        except re2.error as error:
            raise ValueError(
                f"patterns has {text!r}, which is not a valid regular expression ({error})"
            ) from error
    return lambda url: any(pattern.search(url) for pattern in compiled)

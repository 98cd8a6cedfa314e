"""How the requests of a source are made: one table of keys, and one value that has them.

A key that is not set leaves the choice to its setting. The manual is docs/sources.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.secrets import VARIABLE
from smartcrawl.model.setting_values import Number, Setting, Switch, Whole
from smartcrawl.sources.kinds import FILES, GITHUB, SHAREPOINT, SITE
from smartcrawl.sources.proxies import Proxy

MOST_HEADERS: Final = 20
MOST_TEXT: Final = 256  #: characters of a User-Agent, and of the value of a header
_TEXT: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_SECRET: Final = re.compile(
    r"authori[sz]ation|cookie|key|token|secret|passw|credential", re.IGNORECASE
)
#: Headers that belong to a request itself: its host, its body, its connection, its validators.
_OWN: Final = re.compile(
    r"host|accept-encoding|connection|content-.*|transfer-encoding|te|trailer|upgrade|keep-alive"
    r"|expect|range|if-.*|proxy-.*",
    re.IGNORECASE,
)
_TAKES_PROXY: Final = (
    'the address of a proxy, as in "http://proxy.example.com:3128", or the name of an environment'
    ' variable that has it, in capitals as in "DOCS_PROXY"'
)
_TAKES_HEADERS: Final = 'a table of texts, as in { "X-Team" = "docs" }'

HeaderLines = tuple[tuple[str, str], ...]


class _Agent(Setting):
    """The value of a header that names the crawler."""

    __slots__ = ()

    def read(self, value: Any) -> str:
        """Return the text."""
        if not (isinstance(value, str) and _TEXT.fullmatch(value) and len(value) <= MOST_TEXT):
            raise self.error(value, f"1 to {MOST_TEXT} printable ASCII characters in quotes")
        return value


class _Headers(Setting):
    """Names of headers with their values."""

    __slots__ = ()

    def read(self, value: Any) -> HeaderLines:
        """Return the headers; no message has a value, which may be a secret."""
        if not isinstance(value, Mapping):
            raise self.error(type(value).__name__, _TAKES_HEADERS)
        if len(value) > MOST_HEADERS:
            raise SettingError(f"headers has {len(value)} names: expected up to {MOST_HEADERS}")
        names: set[str] = set()
        for name, text in value.items():
            self._check(str(name), text)
            if str(name).lower() in names:
                raise SettingError(f"headers: {name} is there twice: give it once")
            names.add(str(name).lower())
        return tuple((str(name), str(text)) for name, text in value.items())

    @staticmethod
    def _check(name: str, text: object) -> None:
        if not _NAME.fullmatch(name):
            raise SettingError(
                f"headers: {redacted_text(name[:64])!r} is no name of a header: expected letters,"
                " digits and '-', as in X-Team"
            )
        if _SECRET.search(name):
            raise SettingError(
                f"headers: {name} is for a secret, which would stand in a file and in logs: give"
                " it as auth, which takes the name of a variable or a file of its own"
            )
        if name.lower() == "user-agent":
            raise SettingError(f"headers: {name} has a key of its own: write user_agent")
        if _OWN.fullmatch(name):
            raise SettingError(f"headers: {name} belongs to each request itself: leave it out")
        if not (isinstance(text, str) and _TEXT.fullmatch(text) and len(text) <= MOST_TEXT):
            raise SettingError(
                f"headers: {name} takes 1 to {MOST_TEXT} printable ASCII characters in quotes"
            )


class _Proxy(Setting):
    """The address of a proxy without user and password, or the variable that has it whole."""

    __slots__ = ()

    def read(self, value: Any) -> str:
        """Return the address or the name; a user and a password are not repeated."""
        if not isinstance(value, str):
            raise self.error(type(value).__name__, _TAKES_PROXY)
        if VARIABLE.fullmatch(value):
            return value
        if "@" in value:
            raise SettingError(
                "proxy has a user or a password, which would stand in a file and in logs: put the"
                " address into an environment variable, and give the name of that, in capitals as"
                ' in "DOCS_PROXY"'
            )
        try:
            return Proxy.of_address(value).url
        except ValueError:
            raise self.error(redacted_text(value[:200]), _TAKES_PROXY) from None


@dataclass(frozen=True, slots=True)
class RequestKey:
    """One key: its type with name, unit, bounds and sentence, and where it may stand."""

    form: Setting
    setting: str | None  #: whose value it takes the place of; None: there is no such setting
    kinds: frozenset[str]  #: kinds of sources that take it

    @property
    def name(self) -> str:
        """The name of the key."""
        return self.form.name

    def read(self, value: Any) -> Any:
        """Return a value of a file as the program uses it.

        Raises:
            SettingError: naming the key, its value, and what it takes.
        """
        if isinstance(self.form, Number | Whole) and (
            isinstance(value, bool) or not isinstance(value, int | float)
        ):
            raise self.form.error(value, "a number without quotes")
        if isinstance(self.form, Switch) and not isinstance(value, bool):
            raise self.form.error(value, self.form.takes_written)
        return self.form.read(value)


_SITES: Final = frozenset({SITE.name})
_WEB: Final = frozenset({SITE.name, GITHUB.name})

# fmt: off
REQUEST_KEYS: Final[Mapping[str, RequestKey]] = {
    key.name: key
    for key in (
        RequestKey(Number("delay", None, "seconds",
            "seconds between two requests to a host, at least", most=3_600),
            "DOWNLOAD_DELAY", _WEB),
        RequestKey(Whole("concurrency", None, "requests", "requests in flight, each host",
            least=1, most=100), "CONCURRENT_REQUESTS_PER_DOMAIN", _WEB),
        RequestKey(_Agent("user_agent", None, "text", "User-Agent of each request, and the robot"
            " that robots.txt is read for"), "USER_AGENT", _WEB),
        RequestKey(_Headers("headers", None, "table",
            "further headers, to the origins of the seeds only"), None, _SITES),
        RequestKey(Number("timeout", None, "seconds", "seconds for a whole answer",
            least=1, most=3_600), "DOWNLOAD_TIMEOUT", _SITES),
        RequestKey(Whole("max_size", None, "bytes", "bytes of one body, at most; larger ones are"
            " not read", least=1_024, most=1 << 30), "DOWNLOAD_MAXSIZE", _SITES),
        RequestKey(Whole("retry", None, "requests", "more tries after a passing failure",
            least=0, most=20), "RETRY_TIMES", _SITES),
        RequestKey(Switch("obey_robots", None, "switch", "whether robots.txt is asked and obeyed;"
            " each run that does not says so"), "ROBOTSTXT_OBEY", _SITES),
        RequestKey(_Proxy("proxy", None, "address or variable",
            "a proxy that makes all connections, also where `http_proxy` counts"), None, _SITES),
    )
}
# fmt: on
@dataclass(frozen=True, slots=True)
class SourceRequest:
    """The keys that are set, of one source; None and empty: its setting counts."""

    delay: float | None = None  #: seconds
    concurrency: int | None = None
    user_agent: str | None = None
    headers: HeaderLines = ()
    timeout: float | None = None  #: seconds
    max_size: int | None = None  #: bytes
    retry: int | None = None
    obey_robots: bool | None = None
    proxy: str | None = None  #: its address, or the variable that has it: ``proxy_of_source``

    @classmethod
    def declared(cls, values: Mapping[str, object]) -> Self:
        """Return the keys of a table, as a file of sources has them.

        Raises:
            SettingError: naming the first key that is wrong, its value, and what it takes.
        """
        return cls(**{name: REQUEST_KEYS[name].read(value) for name, value in values.items()})

    @classmethod
    def of_words(cls, words: Mapping[str, str], headers: Iterable[str] = ()) -> Self:
        """Return the keys that a command line gives; ``headers``: each as in ``X-Team: docs``.

        Raises:
            SettingError: naming the first key that is wrong, its value, and what it takes.
        """
        found = {name: REQUEST_KEYS[name].form.read(text) for name, text in words.items()}
        lines: dict[str, str] = {}
        for line in headers:
            name, colon, value = line.partition(":")
            if not colon:
                raise SettingError(
                    f"header is {redacted_text(line[:200])!r}: expected a name and a value, as in"
                    " 'X-Team: docs'"
                )
            if name.strip().lower() in map(str.lower, lines):
                raise SettingError(f"headers: {name.strip()} is there twice: give it once")
            lines[name.strip()] = value.strip()
        if lines:
            found["headers"] = REQUEST_KEYS["headers"].read(lines)
        return cls(**found)

    @property
    def given(self) -> Mapping[str, Any]:
        """The keys that are set, with their values."""
        return {name: value for name, value in asdict(self).items() if value not in (None, (), "")}

    @property
    def table(self) -> Mapping[str, Any]:
        """The keys that are set, as ``declared`` takes them.

        >>> SourceRequest(headers=(("X-Team", "docs"),)).table
        {'headers': {'X-Team': 'docs'}}
        """
        return {**self.given, "headers": dict(self.headers)} if self.headers else self.given

    @property
    def settings(self) -> Mapping[str, Any]:
        """The settings that the keys take the place of, with their values."""
        return {
            setting: value
            for name, value in self.given.items()
            if (setting := REQUEST_KEYS[name].setting) is not None
        }


def request_keys_of_kind(kind: str) -> tuple[str, ...]:
    """Return the keys that a kind of sources takes.

    >>> request_keys_of_kind("files")
    ()
    """
    return tuple(name for name, key in REQUEST_KEYS.items() if kind in key.kinds)


def request_key_problems(values: Mapping[str, object]) -> list[str]:
    """Return what is wrong with the keys of a table, each with the remedy."""
    problems = []
    for name, value in values.items():
        try:
            REQUEST_KEYS[name].read(value)
        except SettingError as error:
            problems.append(str(error))
    return problems


#: Why a kind of sources takes none, or not all of the keys.
_REASONS: Final[Mapping[str, str]] = {
    FILES.name: "files are read without requests of the web: leave it out",
    GITHUB.name: "a repository is asked in its own way: leave it out",
    SHAREPOINT.name: "a library is asked in its own way: leave it out",
}


def request_key_refusal(kind: str, name: str) -> str | None:
    """Return why a kind of sources does not take a key of the table, with the remedy; or None."""
    key = REQUEST_KEYS.get(name)
    if key is None or kind in key.kinds:
        return None
    return f"sources of kind {kind} do not take it: {_REASONS[kind]}"

"""Whether the data of a rendered page is as it was, so that no browser need show it (ADR 149)."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, auto
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from smartcrawl.rules.rendering import DATA, DOCUMENT, SCRIPT, WORKER

SECONDS_MARK, MILLISECONDS_MARK = "{s}", "{ms}"  #: in the place of a parameter that is the time
_CLOCKS_APART: Final = 600  #: seconds by which a parameter may differ from the time
_DIGITS: Final = re.compile(r"(?:\d{10}|\d{13})")
_PLACE: Final = re.compile(r"(?<==)\{m?s\}(?=&|$)|(?<=[?&])\{m?s\}(?=&|$)")
#: The name of a script that changes with its bytes: eight hexadecimal digits, or letters between
#: digits.
_HASHED: Final = re.compile(
    r"[.-](?=[\w-]*\d)(?:[0-9a-f]{8,}|(?=[\w-]*\d[A-Za-z_-])(?=[\w-]*\d[\w-]*\d)[\w-]{8,})"
    r"\.(?:m?js)$"
)
_JSON_STARTS: Final = (b"{", b"[")
MOST_JSON: Final = 256 * 1024  #: bytes; of a longer answer no paths are known
MOST_PATHS: Final = 500
_LEAF: Final = 8  #: bytes of the digest of a path, and of its values
ENOUGH: Final = 2  #: renderings with one text that show a path to be noise
SIGNAL: Final = -1_000_000  #: in the place of their number, where a path changed a text once
_REFUSED: Final = frozenset({401, 403, 407, 408, 425, 429})
ABSENT: Final = frozenset({404, 410})
#: Headers of a request that its repetition has, too.
REPEATED: Final = frozenset({"accept", "content-type", "x-requested-with"})
_SECRET: Final = re.compile(r"(?:auth|token|secret|key|csrf|xsrf|session)")
_DRESSED: Final = "cookie"
_WORDS: Final = re.compile(r"[/?&=.:,]")
MOST_SIBLINGS: Final = 2  #: pages of a template that show together what all have


def timeless_url(url: str, now: float) -> str:
    """Return an address with a mark in the place of each parameter that is the time.

    >>> timeless_url("https://h/a?_=1764460000123&t=1764460000&n=7", 1764460001)
    'https://h/a?_={ms}&t={s}&n=7'
    """
    place, mark, query = url.partition("?")
    return place + mark + "&".join(_timeless(part, now) for part in query.split("&"))


def _timeless(part: str, now: float) -> str:
    name, equals, value = part.rpartition("=")
    if not _DIGITS.fullmatch(value):
        return part
    is_long = len(value) == 13
    seconds = int(value) / (1000 if is_long else 1)
    if abs(seconds - now) > _CLOCKS_APART:
        return part
    return name + equals + (MILLISECONDS_MARK if is_long else SECONDS_MARK)


def timed_url(url: str, now: float) -> str:
    """Return an address with the time in the place of its marks.

    >>> timed_url("https://h/a?_={ms}&t={s}", 1764460001.5)
    'https://h/a?_=1764460001500&t=1764460001'
    """
    if "{" not in url:
        return url
    times = {MILLISECONDS_MARK: str(int(now * 1000)), SECONDS_MARK: str(int(now))}
    return _PLACE.sub(lambda found: times[found[0]], url)


def counts_by_name(url: str) -> bool:
    """Whether the name of a script changes with its bytes, so that it need not be asked.

    >>> [counts_by_name(f"https://h/{name}.js") for name in ("app", "main.8f3a2b1c", "vue-3.7.1")]
    [False, True, False]
    """
    return _HASHED.search(urlsplit(url).path) is not None


def is_asked_again(kind: str, url: str) -> bool:
    """Whether a request of a page is repeated at its refresh."""
    return kind in DATA or kind == DOCUMENT or (
        kind in (SCRIPT, WORKER) and not counts_by_name(url)
    )  # fmt: skip


def repeated_headers(headers: Mapping[str, str]) -> dict[str, str] | None:
    """Return the headers with which a request is repeated; None: it rests on a secret of the page.

    Cookies are left out: an answer without them counts, if it is the same.
    """
    found = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower in REPEATED:
            found[lower] = value
        elif _SECRET.search(lower):
            return None
    return found


def has_cookie(headers: Mapping[str, str]) -> bool:
    """Whether a request was sent with a cookie that the page had got."""
    return any(name.lower() == _DRESSED for name in headers)


def request_number(
    source: int, method: str, url: str, headers: Mapping[str, str], body: str
) -> int:
    """Return the number of a request: requests that ask the same of a source have one."""
    parts = json.dumps([source, method, url, sorted(headers.items()), body])
    return digest_number(hashlib.sha256(parts.encode()).digest())


def digest_number(digest: bytes) -> int:
    """Return a digest as a number of the registry: its first 63 bits."""
    return int.from_bytes(digest[:8], "big") >> 1


def answer_digest(status: int, location: str, body: bytes) -> bytes:
    """Return the digest of an answer: of its body, and of where a redirect leads."""
    if 300 <= status < 400:
        body = location.encode(errors="surrogatepass")
    return hashlib.sha256(body).digest()


def json_leaves(body: bytes) -> dict[str, bytes]:
    """Return a digest of the values at each path of a JSON text; empty: it is none, or too long.

    Items of an array have one path.

    >>> sorted(json_leaves(b'{"a": [{"b": 1}, {"b": 2}], "c": null}'))
    ['.a[]', '.a[].b', '.c']
    """
    if len(body) > MOST_JSON or body.lstrip()[:1] not in _JSON_STARTS:
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    found: dict[str, Any] = {}
    for path, leaf in _leaves(value):
        if path not in found:
            if len(found) >= MOST_PATHS:
                return {}
            found[path] = hashlib.sha256()
        found[path].update(json.dumps(leaf).encode() + b"\n")
    return {path: values.digest()[:_LEAF] for path, values in found.items()}


def _leaves(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each leaf; an array also yields its length."""
    rest = [("", value)]
    while rest:
        path, value = rest.pop()
        if isinstance(value, dict) and value:
            rest += [(f"{path}.{name}", inner) for name, inner in reversed(value.items())]
        elif isinstance(value, list) and value:
            yield f"{path}[]", len(value)
            rest += [(f"{path}[]", inner) for inner in reversed(value)]
        else:
            yield path, value


def packed_leaves(leaves: Mapping[str, bytes]) -> bytes:
    """Return the leaves of a JSON text as they are stored."""
    return b"".join(sorted(_path_digest(path) + values for path, values in leaves.items()))


def _path_digest(path: str) -> bytes:
    return hashlib.sha256(path.encode(errors="surrogatepass")).digest()[:_LEAF]


def changed_paths(stored: bytes, leaves: Mapping[str, bytes]) -> frozenset[str] | None:
    """Return the paths at which two JSON texts differ; None: they differ in their paths, or no path
    is known.
    """
    step = 2 * _LEAF
    before = {stored[at : at + _LEAF]: stored[at + _LEAF : at + step]
              for at in range(0, len(stored), step)}  # fmt: skip
    now = {_path_digest(path): path for path in leaves}
    if not before or before.keys() != now.keys():
        return None
    return frozenset(path for key, path in now.items() if before[key] != leaves[path])


NoiseKin = tuple[str, tuple[str, ...], tuple[bytes, ...]]


def noise_kin(url: str, packed: bytes) -> NoiseKin:
    """Return by what requests are kin that have noise at the same paths; ``packed``: their leaves.

    They are in one folder, with parameters of the same names, and their JSON has the same paths.
    """
    place, _, query = url.partition("?")
    names = tuple(part.partition("=")[0] for part in query.split("&"))
    paths = tuple(packed[at : at + _LEAF] for at in range(0, len(packed), 2 * _LEAF))
    return place.rpartition("/")[0], names, paths


def is_noise(changed: frozenset[str] | None, times: Mapping[str, int]) -> bool:
    """Whether two answers say the same: they differ at most where noise was seen often enough."""
    return changed is not None and all(path in times and times[path] >= ENOUGH for path in changed)


def joined_times(one: int, other: int) -> int:
    """Return how often a path was seen to be noise, by what two requests know.

    >>> joined_times(1, 2), joined_times(SIGNAL, 2), joined_times(0, SIGNAL) == SIGNAL
    (2, -1000000, True)
    """
    return min(one, other) if min(one, other) < 0 else max(one, other)


class DataState(StrEnum):
    """What became of the data of a page, the gravest last."""

    SAME = auto()
    CHANGED = auto()  #: the page is to be rendered
    GONE = auto()  #: its own data is not found
    MISSING = auto()  #: the stored page stays


class Way(StrEnum):
    """How the visit of a page goes on."""

    CONFIRMED = auto()  #: as if a 304 had confirmed it
    SHOWN = auto()  #: with the markup of the browser
    NOT_FOUND = auto()
    AGAIN = auto()  #: its document is needed, and is to be asked without a condition


class DataAnswer(NamedTuple):
    """The answer to a request for data: a status, or none with the reason."""

    status: int | None
    refused: str = ""


def data_state(before: int, answer: DataAnswer, *, is_same: bool, has_cookie: bool) -> DataState:
    """Return what an answer says of the request of a stored page.

    ``before``: its status at the rendering. ``is_same``: the answer is a 304, or says the same.
    ``has_cookie``: it was sent with a cookie then, and is without now.
    """
    status = answer.status
    if is_same and status in (304, before):
        return DataState.SAME
    if status is None or status >= 500 or status in _REFUSED:
        was_without = before >= 400
        is_bare = has_cookie and status in _REFUSED
        return DataState.CHANGED if was_without or is_bare else DataState.MISSING
    if status in ABSENT and before < 300:
        return DataState.GONE
    return DataState.CHANGED


def page_state(states: Iterable[tuple[DataState, bool]]) -> DataState:
    """Return what became of a page: of the states of its requests, each with whether it is its own.

    A page is not found where data of its own is, and none of its own is left.
    """
    found = list(states)
    if any(state is DataState.MISSING for state, _ in found):
        return DataState.MISSING
    own = [state for state, is_own in found if is_own]
    if own and all(state is DataState.GONE for state in own):
        return DataState.GONE
    if all(state is DataState.SAME for state, _ in found):
        return DataState.SAME
    return DataState.CHANGED


def is_own_data(page: str, url: str) -> bool:
    """Whether data is that of one page: its address names the page as the page's own does.

    >>> is_own_data("https://h/p/7", "https://h/api/p/7.json")
    True
    >>> is_own_data("https://h/p/7", "https://h/api/menu.json?n=70")
    False
    """
    name = _own_name(page)
    if not name:
        return False
    parts = urlsplit(url)
    words = [word for part in (parts.path, parts.query) for word in _WORDS.split(unquote(part))]
    return name.lower() in map(str.lower, words)


def _own_name(page: str) -> str:
    """Return the last part of a page's address, of its route where it has one behind ``#``."""
    parts = urlsplit(page)
    place = parts.fragment or parts.path
    names = [name for name in place.partition("?")[0].split("/") if name]
    return unquote(names[-1]).partition(".")[0] if names else ""


def is_not_found(page: str, answers: Iterable[tuple[str, int | None]]) -> bool:
    """Whether the own data of a rendered page is not found; ``answers``: addresses and statuses."""
    own = [status for url, status in answers if is_own_data(page, url)]
    return bool(own) and all(status in ABSENT for status in own)


def page_template(url: str) -> str:
    """Return the host, first folder and depth of a request URL, by which pages are alike.

    Each page of a run is asked for it, so it takes the URL apart without parsing it.

    >>> page_template("https://h/docs/a/b"), page_template("https://h/")
    ('h/docs 3', 'h/ 0')
    """
    place, _, route = url.partition("#")
    host, _, path = place.partition("://")[2].partition("?")[0].partition("/")
    names = [name for name in (route.removeprefix("!") or path).split("/") if name]
    folder = names[0] if len(names) > 1 else ""
    return f"{host}/{folder} {len(names)}"


def data_template(page: str, url: str) -> str:
    """Return a request as pages of one template have it alike.

    >>> data_template("https://h/p/seven", "https://h/api/seven/12?page=3")
    'https://h/api/*/N?page=N'
    """
    name, shown = _own_name(page), unquote(url)
    if name:
        shown = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "*", shown, flags=re.IGNORECASE)
    return re.sub(r"\d+", "N", shown)


@dataclass(slots=True)
class Siblings:
    """The requests that pages of one template have in common."""

    _pages: Counter[str] = field(default_factory=Counter)
    _seen: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, page: str, urls: Iterable[str]) -> None:
        """Count the requests of a page that was rendered whole."""
        template = page_template(page)
        self._pages[template] += 1
        self._seen.setdefault(template, Counter()).update({data_template(page, u) for u in urls})

    def lacking(self, page: str, urls: Collection[str]) -> frozenset[str]:
        """Return the requests that most siblings of a page made, and it did not."""
        template = page_template(page)
        pages = self._pages[template]
        if pages < MOST_SIBLINGS:
            return frozenset()
        own = {data_template(page, url) for url in urls}
        common = self._seen[template].items()
        return frozenset(each for each, count in common if 2 * count > pages and each not in own)


class Validated(NamedTuple):
    """Validators and digest of an answer."""

    etag: str | None
    last_modified: str | None
    digest: bytes


def would_confirm(before: Validated, now: Validated) -> bool:
    """Whether a conditional request would have confirmed an answer, by its validators."""
    if before.etag is not None:
        return before.etag == now.etag
    if before.last_modified is not None:
        return before.last_modified == now.last_modified
    return before.digest == now.digest


def confirmed_by(requests: int) -> str:
    """Return by what a page was confirmed, in words.

    >>> confirmed_by(1), confirmed_by(3)
    ('confirmed by 1 data request', 'confirmed by 3 data requests')
    """
    return f"confirmed by {requests} data {'request' if requests == 1 else 'requests'}"

"""Rendered pages: the requests that a page may make, and when it has settled."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from urllib.parse import urlsplit

DOCUMENT: Final = "Document"
SCRIPT: Final = "Script"
WORKER: Final = "Worker"  #: script of one
#: Kinds of requests that bring data, by their names in the protocol of browsers.
DATA: Final = frozenset({"XHR", "Fetch"})
#: Kinds whose answers change no text; the page gets an empty one.
EMPTY: Final = frozenset({"Stylesheet", "Image"})
#: Kinds that stay open: what they bring is not asked again by a request.
STREAMS: Final = frozenset({"EventSource", "WebSocket"})
FIRST_STEP: Final = 3_000  #: milliseconds of the page's clock before it may have settled
STEP: Final = 100  #: milliseconds of each further step
STILL: Final = 2  #: steps without a request after which a page has settled
MOST_POLLS: Final = 12  #: requests of one template
MOST_REQUESTS: Final = 200  #: of one page
MOST_BYTES: Final = 64 * 1024 * 1024  #: of all answers to one page
_LONG_NUMBER: Final = re.compile(r"\d{9,}")  #: in a path: a time, or the id of a session
_NUMBER: Final = re.compile(r"\d+")
_SCRIPT_TAG: Final = re.compile(
    r"""<(?:script\b[^<>]*?\bsrc|link\b[^<>]*?\bhref)\s*=\s*["']?\s*((?:https?:)?//[^\s"'<>]+)""",
    re.IGNORECASE,
)
_SCRIPT_EDGE: Final = re.compile(r"</?script\b", re.IGNORECASE)
_IMPORTED: Final = re.compile(r"""["'](https?://[^\s"'<>]+)["']""")
_MODULE: Final = re.compile(r"\b(?:import|from)\b|\"imports\"")

FEW_WORDS: Final = 20  #: a page with fewer shows nothing
#: Reason of a run whose pages need a browser, and the beginning of the message of such a page.
NO_BROWSER: Final = "render: no browser"

WRONG_METHOD: Final = "only GET is sent"
OTHER_SITE: Final = "another site, not in data_hosts"
OTHER_KIND: Final = "no text"
POLLING: Final = "too many of one kind"
TOO_MANY: Final = "too many requests"
LOGS_OUT: Final = "it would end the login"
_FORBIDDEN: Final = frozenset({401, 403, 407})
BY_RULE: Final = frozenset({WRONG_METHOD, OTHER_SITE, OTHER_KIND, POLLING, TOO_MANY, LOGS_OUT})


def is_same_site(host: str, other: str) -> bool:
    """Whether two hosts are one site: equal, or one is below the other; ``www.`` does not count.

    >>> is_same_site("www.example.com", "api.example.com")
    True
    >>> is_same_site("docs.example.com", "api.example.com")
    False
    """
    one, two = (name.lower().removeprefix("www.") for name in (host, other))
    return one == two or one.endswith(f".{two}") or two.endswith(f".{one}")


def named_script_hosts(markup: str) -> frozenset[str]:
    """Return the hosts of the scripts that the markup of a page names itself.

    It names them by the address of an element, such as one that preloads, or where an inline
    script imports a module.
    """
    found = {*_SCRIPT_TAG.findall(markup)}
    for text in _inline_scripts(markup):
        if _MODULE.search(text):
            found |= {*_IMPORTED.findall(text)}
    return frozenset(filter(None, map(_host, found)))


def _inline_scripts(markup: str) -> Iterator[str]:
    """Yield the texts of the scripts of a page, in linear time whatever the page is.

    >>> list(_inline_scripts('<script type=module>import "a"</script> <script><SCRIPT>b</script>'))
    ['import "a"', '<SCRIPT>b']
    """
    begin: int | None = None
    for edge in _SCRIPT_EDGE.finditer(markup):
        is_end = edge[0].startswith("</")
        if is_end and begin is not None:
            yield markup[begin : edge.start()].partition(">")[2]
            begin = None
        elif not is_end and begin is None:
            begin = edge.end()


def _netloc(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2] if _host(url) else ""


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


class DataRequest(NamedTuple):
    """A request of a page for data or a script, and what came of it."""

    host: str
    status: int | None  #: None: it had no answer
    refused: str  #: why, or an empty string
    is_own: bool  #: whether it is of the page's site or of ``data_hosts``
    url: str = ""
    is_data: bool = False  #: no script

    @property
    def reason(self) -> str:
        """Why its answer is missing."""
        return self.refused or (f"HTTP {self.status}" if self.status else "no answer")


@dataclass(frozen=True, slots=True)
class PageRequestRules:
    """Which requests a page may make."""

    host: str  #: of the page
    #: Other hosts that it may ask; an entry without a port allows all ports of its host.
    data_hosts: Collection[str] = ()
    reads_by_post: Callable[[str], bool] | None = None  #: addresses that POST reads (data_posts)
    foreign_scripts: bool = True  #: those that the page names, from any host

    def refusal(self, method: str, url: str, kind: str, named: Collection[str] = ()) -> str:
        """Return why a request is refused; an empty string: it is sent.

        ``named``: the hosts of ``named_script_hosts``.
        """
        if kind not in DATA and kind not in (DOCUMENT, SCRIPT, WORKER):
            return OTHER_KIND
        reads = self.reads_by_post
        posts = method == "POST" and kind in DATA and reads is not None and reads(url)
        if method != "GET" and not posts:
            return WRONG_METHOD
        if self.is_own(url):
            return ""
        if kind == SCRIPT and self.foreign_scripts and _host(url) in named:
            return ""
        return OTHER_SITE

    def is_own(self, url: str) -> bool:
        """Whether an address is of the page's site, or of ``data_hosts``."""
        host = _host(url)
        return is_same_site(self.host, host) or bool({host, _netloc(url)} & {*self.data_hosts})


def request_template(url: str) -> str:
    """Return an address with its numbers replaced, by which requests of one poll are equal.

    >>> request_template("https://h/state/7?_=1764460000000&page=2")
    'https://h/state/7?_=N&page=N'
    """
    place, mark, query = url.partition("?")
    return _LONG_NUMBER.sub("N", place) + mark + _NUMBER.sub("N", query)


def missing_requests(requests: Iterable[DataRequest], *, words: int) -> list[DataRequest]:
    """Return which of the data of a page is missing.

    Requests of its own site and of ``data_hosts`` count that had no answer, or a passing error.
    Where the page has fewer than ``FEW_WORDS`` words without them, so do all others, and those
    that the rules refused: then it shows nothing. So it does if all of its data is forbidden.
    """
    shows, found = words >= FEW_WORDS, list(requests)
    data = [each for each in found if each.is_data]
    is_forbidden = not shows and all(
        each.status in _FORBIDDEN or _is_missing(each) for each in data
    )
    return [
        each
        for each in found
        if (_is_missing(each) and not (shows and (not each.is_own or each.refused in BY_RULE)))
        or (is_forbidden and each.is_data)
    ]


def missing_in_words(missing: Iterable[DataRequest]) -> str:
    """Return the host that most of the missing requests are to, with the reason."""
    found = Counter((each.host, each.reason) for each in missing)
    [((host, why), count)] = found.most_common(1)
    return data_reason(host, why, count)


def data_reason(host: str, why: str, count: int) -> str:
    """Return in words how many requests to a host have no answer, and why.

    >>> data_reason("h", "HTTP 500", 1)
    '1 request to h: HTTP 500'
    >>> data_reason("h", forbidden_by_robots("h"), 2)
    'robots.txt of h forbids 2 requests'
    """
    requests = f"{count:,} {'request' if count == 1 else 'requests'}"
    if why == forbidden_by_robots(host):
        return f"robots.txt of {host} forbids {requests}"
    return f"{requests} to {host}: {why}"


def forbidden_by_robots(host: str) -> str:
    """Return why a request has no answer that robots.txt forbids."""
    return f"robots.txt of {host} forbids it"


def _is_missing(request: DataRequest) -> bool:
    status = request.status
    return request.refused != POLLING and (status is None or status == 429 or status >= 500)


@dataclass(slots=True)
class RequestCaps:
    """The number of requests that one page may make."""

    rounds: int = 1  #: times that it may load its data: one, and one for each scroll
    _all: int = 0
    _by_template: dict[tuple[str, str], int] = field(default_factory=dict)

    def refusal(self, url: str, body: str = "") -> str:
        """Count a request; return why it is one too many, or an empty string."""
        key = request_template(url), body
        count = self._by_template[key] = self._by_template.get(key, 0) + 1
        if count > MOST_POLLS * self.rounds:
            return POLLING
        self._all += 1
        return TOO_MANY if self._all > MOST_REQUESTS else ""


@dataclass(slots=True)
class Settling:
    """When a page has settled, by its own clock, which stands still while it waits for answers."""

    most: int  #: milliseconds; there is always time for a page that asks nothing
    spent: int = 0
    _still: int = 0
    _asked: int = 0

    def step(self, asked: int) -> int:
        """Return the milliseconds that its clock goes on; 0: it has settled.

        ``asked``: the requests that it has made until now.
        """
        if not self.spent:
            self.spent = FIRST_STEP
            return FIRST_STEP
        self._still = self._still + 1 if asked == self._asked and self.spent > FIRST_STEP else 0
        self._asked = asked
        return 0 if self._still >= STILL else self.further()

    def further(self) -> int:
        """Return the milliseconds of one more step; 0: the page's time is over."""
        if self.spent >= max(self.most, FIRST_STEP + STILL * STEP):
            return 0
        self.spent += STEP
        return STEP

    def again(self) -> None:
        """Begin to count anew, as after the page was scrolled."""
        self._still = 0

    @property
    def is_over(self) -> bool:
        """Whether it still asked when its time was over."""
        return self._still < STILL

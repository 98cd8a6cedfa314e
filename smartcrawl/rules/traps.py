"""Crawler traps: addresses that lead only to more addresses of their kind."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum, auto
from typing import Final

ENDLESS: Final = "endless"  #: word of the note about a chain, and of the marks that are stored
MOST_ALIKE: Final = 20  #: pages in a row without news that end a chain
MAX_CHAINS: Final = 65_536  #: chains whose last pages are kept

_NUMBER: Final = re.compile(r"[0-9]+")
_SPECIAL: Final = re.compile(r"([^0-9A-Za-z_/=&%~:;,-])")


def chain_of_url(url: str) -> str | None:
    """Return the chain of an address: all that differ by their numbers alone; None: it has none.

    >>> chain_of_url("https://example.com/list?page=12&size=50")
    'https://example.com/list?page=0&size=0'
    >>> chain_of_url("https://example.com/list") is None
    True

    The numbers of the host do not count.
    """
    place = url.find("/", len("https://"))
    if place < 0:
        return None
    rest, found = _NUMBER.subn("0", url[place:])
    return url[:place] + rest if found else None


def chain_pattern(url: str) -> str:
    r"""Return a pattern for ``excluded_patterns`` that leaves out the rest of a chain from ``url``.

    With one number that is this one and all greater ones, else it is the whole chain.

    >>> chain_pattern("https://example.com/list.php?page=37")
    '/list[.]php[?]page=(37|3[8-9]|[4-9][0-9]|[0-9]{3,})$'
    >>> chain_pattern("https://example.com/events/1989-12/")
    '/events/[0-9]+-[0-9]+/$'
    """
    rest = url[url.index("/", len("https://")) :]
    numbers = _NUMBER.findall(rest)
    literal = [_SPECIAL.sub(r"[\1]", part) for part in _NUMBER.split(rest)]
    if len(numbers) != 1 or numbers[0].startswith("0"):
        return "[0-9]+".join(literal) + "$"
    digits = numbers[0]
    greater = [digits]
    for place in range(len(digits) - 1, -1, -1):
        if digits[place] != "9":
            left = len(digits) - 1 - place
            tail = "[0-9]" * left if left < 2 else f"[0-9]{{{left}}}"
            greater.append(f"{digits[:place]}[{int(digits[place]) + 1}-9]{tail}")
    greater.append(f"[0-9]{{{len(digits) + 1},}}")
    return f"{literal[0]}({'|'.join(greater)}){literal[1]}$"


class Chains:
    """The chains of one run, by the pages that were first met in it.

    A chain has ended when ``MOST_ALIKE`` pages in a row had the same content, and none had a new
    link that leads out of the chain. Only pages to which a page of the chain led first count: what
    a list or a sitemap names is no chain.
    """

    def __init__(self, most: int = MAX_CHAINS) -> None:
        """``most``: chains whose last pages are kept; the oldest is forgotten first."""
        self._most = most
        self._led: set[int] = set()  #: numbers of pages to which a page of their chain led first
        self._last: OrderedDict[str, tuple[bytes, int]] = OrderedDict()  #: content, pages in a row
        self._ended: set[str] = set()

    def leads(self, number: int) -> None:
        """Note that a page of a chain was the first that led to another one, ``number``."""
        self._led.add(number)

    def has_ended(self, chain: str | None) -> bool:
        """Whether further pages of a chain are not requested."""
        return chain in self._ended

    def is_last(self, number: int, chain: str, content: bytes) -> bool:
        """Whether a page ends its chain, unless it has news (``brought``)."""
        return number in self._led and self._last.get(chain) == (content, MOST_ALIKE - 1)

    def brought(self, number: int, chain: str, content: bytes, *, news: bool) -> None:
        """Count a page: the hash of its content, and whether it has a new link out of the chain."""
        if number not in self._led:
            return
        self._led.discard(number)
        last, count = self._last.pop(chain, (content, 0))
        count = 0 if news else count + 1 if last == content else 1
        self._last[chain] = content, count
        if count >= MOST_ALIKE:
            self._ended.add(chain)
        elif len(self._last) > self._most:
            self._last.popitem(last=False)


MAX_LENGTH: Final = 2083  #: characters of an address
MAX_REPEATS: Final = 3  #: times that one address may contain a segment, a parameter or itself
MAX_PLACES: Final = 8  #: the same of a segment that only keeps a place: ``0``, ``12``, ``-``
MAX_SEGMENTS: Final = 32  #: of a path
MAX_PARAMETERS: Final = 32  #: of a query
MAX_YEARS_AHEAD: Final = 2  #: of a calendar
MAX_COUNTED: Final = 65_536  #: addresses with session ids whose count is kept

FIRST_YEAR: Final = 1990  #: of a calendar
#: Numbers below the first or from the second on are ids, not years. A crawl walks a calendar step
#: by step: it is stopped at the next years and never meets those.
_YEARS: Final = (1900, 2200)
_YEAR: Final = re.compile(r"[/=]((?:19|2[01])\d\d)")
_DAY: Final = r"(\d{4})[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12]\d|3[01]))?"
_DATE: Final = re.compile(_DAY)
_DATE_IN_PATH: Final = re.compile(rf"/{_DAY}(?=/|\Z)")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_MAX_WORDS: Final = 3  #: of a segment that names a part of a site; with more it is a headline
_CALENDARS: Final = frozenset({"agenda", "cal", "calendar", "calendario", "calendrier", "kalender"})
#: Words, without an s at their end, for parts of a site with a page for each date. Their future has
#: no end; their past has one.
_DATED: Final = _CALENDARS | {
    "archive", "date", "day", "event", "month", "schedule", "termine", "veranstaltungen", "week",
    "year",
}  # fmt: skip
_OF_A_YEAR: Final = _DATED | {"y", "yr"}
#: Words of a filter: ``date_to=2099-12-31`` means every day, and is no step of a calendar.
_BOUNDS: Final = frozenset(
    {"after", "before", "end", "from", "max", "min", "start", "till", "to", "until"}
)

# The begin of a query in another query, escaped any number of times.
_HEAD: Final = re.compile(r"(?:\?|%(?:25)*3F)([^?=&%/]+)(?:=|%(?:25)*3D)", re.IGNORECASE)
_ESCAPED: Final = "%" + MAX_REPEATS * "25"
_AMPERSANDS: Final = ((MAX_REPEATS + 1) * "amp;", (MAX_REPEATS + 1) * "amp%3B")

# Names of session ids that other ids have, too: story 12 is "sid=12". Names that only session ids
# have are no part of an address (model.signatures).
_SESSION: Final = re.compile(
    r"[?&;](?:s|sid|session|session_?id)="
    r"(?=[0-9-]*[A-Z])(?=[A-Z-]*[0-9])"
    r"(?:[0-9A-Z]{16,}|[0-9A-F]{8}-(?:[0-9A-F]{4}-){3}[0-9A-F]{12})(?![^&;/?])",
    re.IGNORECASE,
)


class Trap(StrEnum):
    """Reasons not to request a new address."""

    PATH_REPEAT = auto()  #: the path contains a segment too often
    PATH_TOO_DEEP = auto()
    QUERY_REPEAT = auto()  #: a query that grows: with parameters, or with itself
    CALENDAR = auto()  #: a calendar beyond its entries
    SESSION_ID = auto()  #: one page under ever new session ids
    HOST_BUDGET = auto()  #: too many addresses of one host
    TOO_MANY_HOSTS = auto()
    URL_TOO_LONG = auto()

    @property
    def words(self) -> str:
        """The message: the problem of the address, and the remedy."""
        return _MESSAGES[self]


_LEAVE_OUT: Final = "; to leave such addresses out for good, add a pattern to excluded_patterns"
_MESSAGES: Final[Mapping[Trap, str]] = {
    Trap.PATH_REPEAT: f"the same path segment more than {MAX_REPEATS} times{_LEAVE_OUT}",
    Trap.PATH_TOO_DEEP: f"more than {MAX_SEGMENTS} path segments{_LEAVE_OUT}",
    Trap.QUERY_REPEAT: f"the same parameter, or the address in itself, more than {MAX_REPEATS}"
    f" times, or more than {MAX_PARAMETERS} parameters{_LEAVE_OUT}",
    Trap.CALENDAR: f"a calendar day before {FIRST_YEAR} or more than {MAX_YEARS_AHEAD} "
    f"years ahead{_LEAVE_OUT}",
    Trap.SESSION_ID: "the same page under many session ids; add their parameter to "
    "TRACKING_PARAM_NAMES, or a pattern to excluded_patterns",
    Trap.HOST_BUDGET: "more addresses of this host than HOST_URL_BUDGET allows; raise "
    "it, or leave parts of the site out with excluded_patterns",
    Trap.TOO_MANY_HOSTS: "more hosts than MAX_HOSTS allows; raise it, or list the hosts "
    "of the source in allowed_domains",
    Trap.URL_TOO_LONG: f"longer than {MAX_LENGTH:,} characters, which few servers accept",
}


def trap_of(url: str, year: int) -> Trap | None:
    """Return the trap that the spelling of a request URL (see ``urls.request_url``) shows.

    ``year`` is the present one.

    >>> trap_of("https://example.com/a/b/a/b/a/b/a/b", 2025)
    <Trap.PATH_REPEAT: 'path_repeat'>
    >>> trap_of("https://example.com/events/2031/05/", 2025)
    <Trap.CALENDAR: 'calendar'>
    >>> trap_of("https://example.com/2024/05/more-events", 2025)

    *Path*: it may contain a segment 3 times; a segment of up to two digits or signs, which keeps a
    place as in ``/jobs/12/0/0/0/0``, 8 times. A path has up to 32 segments, empty ones included.

    *Query*: it may contain a parameter with the same value 3 times, the address itself 3 times,
    escaped or not, and ``amp;`` 3 times in a row. There may be 32 parameters.

    *Calendar*: ``/yyyy/mm[/dd]`` and ``yyyy-mm[-dd]`` in the path behind a short segment with a
    word such as calendar, event, archive or month. Likewise such a date in a parameter, where its
    name or the path has such a word; and a year in a parameter like ``year``, where the path or
    another parameter has one. Up to two years ahead are accepted. Before 1990 only a calendar is
    refused, because archives are that old. Bounds such as ``date_to`` and numbers from 2200 on
    (ids) are no dates.

    Source: ATT-37.
    """
    path, _, query = url[url.index("/", len("https://")) + 1 :].partition("?")
    if path.count("/") >= MAX_REPEATS and (trap := _trap_of_path(path)):
        return trap
    if query and _is_growing(query):
        return Trap.QUERY_REPEAT
    if _names_far_year(url, year) and (
        _is_walked_by_path(path, year) or _is_walked_by_query(path, query, year)
    ):
        return Trap.CALENDAR
    return None


def _trap_of_path(path: str) -> Trap | None:
    segments = path.removesuffix("/").split("/")
    for segment in _repeated(segments):
        keeps_a_place = len(segment) <= 2 and segment.upper() == segment.lower()
        if segment and (not keeps_a_place or segments.count(segment) > MAX_PLACES):
            return Trap.PATH_REPEAT
    return Trap.PATH_TOO_DEEP if len(segments) > MAX_SEGMENTS else None


def _is_growing(query: str) -> bool:
    if query.count("&") >= MAX_REPEATS:
        parts = [part for part in query.split("&") if part]
        if len(parts) > MAX_PARAMETERS or _repeated(parts):
            return True
    if _ESCAPED in query or _AMPERSANDS[0] in query or _AMPERSANDS[1] in query:
        return True
    if "%" not in query and "?" not in query:
        return False
    marks = query.count("?") + query.count("3F") + query.count("3f")
    return marks > MAX_REPEATS and bool(_repeated(_HEAD.findall(query)))


def _repeated(words: list[str]) -> list[str]:
    """Return the words that a list contains too often."""
    if len(words) - len(set(words)) < MAX_REPEATS:
        return []
    return [word for word, times in Counter(words).items() if times > MAX_REPEATS]


def _names_far_year(url: str, year: int) -> bool:
    # For most addresses these six searches suffice, and cost less than the expression.
    if "/20" in url or "=20" in url or "/19" in url or "=19" in url or "/21" in url or "=21" in url:
        for found in _YEAR.findall(url):
            if _is_far(int(found), year):
                return True
    return False


def _is_far(found: int, year: int) -> bool:
    return found < FIRST_YEAR or found > year + MAX_YEARS_AHEAD


def _is_walked(found: int, year: int, said: set[str]) -> bool:
    """Whether a year is beyond a calendar's entries, by the words around it."""
    if found in range(_YEARS[0], FIRST_YEAR):
        return not said.isdisjoint(_CALENDARS)
    ahead = range(year + MAX_YEARS_AHEAD + 1, _YEARS[1])
    return found in ahead and not said.isdisjoint(_DATED)


def _is_walked_by_path(path: str, year: int) -> bool:
    return any(
        _is_walked(int(date[1]), year, _named(path[: date.start()]))
        for date in _DATE_IN_PATH.finditer(path)
    )


def _is_walked_by_query(path: str, query: str, year: int) -> bool:
    parameters = [
        (words, value)
        for name, _, value in (part.partition("=") for part in query.split("&"))
        if not (words := _words(name)) & _BOUNDS
    ]
    part_of_site = _named(path)
    for n, (words, value) in enumerate(parameters):
        if date := _DATE.fullmatch(value):
            if _is_walked(int(date[1]), year, words | part_of_site):
                return True
        elif _YEAR.fullmatch("=" + value) and words & _OF_A_YEAR:
            others = [other for k, (other, _) in enumerate(parameters) if k != n]
            if _is_walked(int(value), year, part_of_site.union(*others)):
                return True
    return False


def _named(path: str) -> set[str]:
    """Return the words of the segments that name a part of a site."""
    named = [words for segment in path.split("/") if len(words := _words(segment)) <= _MAX_WORDS]
    return set().union(*named)


def _words(name: str) -> set[str]:
    """Return the words of a name, in lower case and without an s at their end.

    >>> sorted(_words("tribe-bar-eventDates"))
    ['bar', 'date', 'event', 'tribe']
    """
    return {word.lower().removesuffix("s") for word in _WORD.findall(name)}


class TrapBudget:
    """Limits of one run to new addresses: of each host, of hosts, of session ids of a page.

    0 is no limit. ``refuse`` is called once for each new address. ``is_linked`` says of the number
    of a known address whether this run met a link to it.
    """

    def __init__(
        self,
        *,
        year: int,
        per_host: int,
        hosts: int,
        per_session: int = 20,
        is_linked: Callable[[int], bool] = lambda number: False,
    ) -> None:
        self._year = year
        self._is_linked = is_linked
        self._per_host = per_host
        self._hosts = hosts
        self._per_session = per_session
        self._met: dict[str, int] = {}  #: addresses by host
        #: known addresses, some with session ids, and their numbers
        self._unread: list[Iterable[tuple[int, str]]] = []
        self._known: dict[int, list[int]] = {}  #: their numbers by hash of address
        self._sessions: OrderedDict[int, int] = OrderedDict()  #: new ones by hash of address

    def known(self, host: str, count: int) -> None:
        """Note the number of a host's addresses in the registry; several calls add up."""
        self._met[host] = self._met.get(host, 0) + count

    def seen(self, urls: Iterable[tuple[int, str]]) -> None:
        """Note known addresses that may contain session ids, and their numbers.

        They are not read before a new address has a session id: few sites have any.
        """
        self._unread.append(urls)

    def refuse(self, url: str, host: str, known: Collection[int] = ()) -> Trap | None:
        """Return the reason not to request a new address; None: it is counted and may be requested.

        ``known``: numbers of the known addresses that the same page links.

        Of addresses that differ only in their session ids, ``per_session`` pass, those counted that
        were known and linked in this run. A session id is a parameter of path or query with the
        name ``s``, ``sid``, ``session`` or ``session_id`` whose value is a UUID or has at least 16
        letters and digits. The counts of 65,536 such addresses are kept, then the oldest go.

        >>> budget = TrapBudget(year=2025, per_host=1, hosts=1)
        >>> budget.refuse("https://example.com/a", "example.com")
        >>> budget.refuse("https://example.com/b", "example.com")
        <Trap.HOST_BUDGET: 'host_budget'>
        >>> budget.refuse("https://example.net/", "example.net")
        <Trap.TOO_MANY_HOSTS: 'too_many_hosts'>

        Source: ATT-37.
        """
        if trap := trap_of(url, self._year):
            return trap
        met = self._met.get(host, 0)
        if self._hosts and len(self._met) >= self._hosts and host not in self._met:
            return Trap.TOO_MANY_HOSTS
        if self._per_host and met >= self._per_host:
            return Trap.HOST_BUDGET
        if ("?" in url or ";" in url) and self._per_session and self._is_one_more(url, known):
            return Trap.SESSION_ID
        self._met[host] = met + 1
        return None

    def _is_one_more(self, url: str, known: Collection[int]) -> bool:
        """Whether an address is a page under one session id too many; count it when it is not.

        The method is called once for each address, so that each brings another id.
        """
        key = _page_of_session(url)
        if key is None:
            return False
        while self._unread:
            for number, other in self._unread.pop():
                page = _page_of_session(other)
                if page is not None:
                    self._known.setdefault(page, []).append(number)
        met = self._sessions.get(key, 0)
        if met < self._per_session and (numbers := self._known.get(key)):
            here = set(known)
            met += sum(number in here or self._is_linked(number) for number in numbers)
        if met >= self._per_session:
            return True
        self._sessions[key] = self._sessions.get(key, 0) + 1
        if len(self._sessions) > MAX_COUNTED:
            self._sessions.popitem(last=False)
        return False


def _page_of_session(url: str) -> int | None:
    """Return the hash of an address without its session ids; None: it has none."""
    lower = url.lower()
    if not (
        "id=" in lower or "session=" in lower
        or "?s=" in lower or "&s=" in lower or ";s=" in lower
    ):  # fmt: skip
        return None  # cheaper than the expression
    page, found = _SESSION.subn("", url)
    return hash(page) if found else None  # 64 bits, with a seed that no site can know

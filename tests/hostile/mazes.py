"""Pages that lead to ever more pages. Each maze ends somewhere, so that a test of it does."""

import re
from functools import partial

from tests.hostile.kinds import KEEP, NEW, Answer, Ask, Kind, Script, page, whole

kind = partial(Kind, "maze")

_END = 40  #: rooms of a maze
_YEARS = 60  #: of the calendar
_FIRST_YEAR = 2026


def _room(ask: Ask, *links: str) -> Script:
    return whole(page(ask, *links)), KEEP


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _segments(*names: str) -> Answer:
    """Each room leads to one that lies deeper, by these names in turn."""

    def answer(ask: Ask) -> Script:
        depth = ask.rest.count("/")
        deeper = f"{ask.here}{ask.rest}/{names[depth % len(names)]}"
        return _room(ask, *([deeper] if depth < _END else []))

    return answer


def _relative(ask: Ask) -> Script:
    """A relative link that was meant to be one from the root."""
    depth = ask.rest.count("/")
    links = ["deeper/index", "deeper/contact"] if ask.rest else [f"{ask.here}/index"]
    return _room(ask, *(links if depth < _END and not ask.rest.endswith("contact") else []))


def _calendar(query: bool) -> Answer:
    """Each January leads to its year's months, as a query or a path, and to the next January."""

    def answer(ask: Ask) -> Script:
        year = _number(r"(\d{4})", ask.rest) or _FIRST_YEAR
        month = _number(r"\d{4}[-/](\d\d)", ask.rest)
        if month > 1 or year >= _FIRST_YEAR + _YEARS:
            return _room(ask)
        form = "{}?month={:04}-{:02}" if query else "{}/{:04}/{:02}"
        return _room(
            ask,
            form.format(ask.here, year + 1, 1),
            *(form.format(ask.here, year, month) for month in (2, 3)),
        )

    return answer


def _session(form: str) -> Answer:
    """Each room hands out a new session, under which every address is another."""

    def answer(ask: Ask) -> Script:
        seen = _number(r"5e55([0-9]{4})", ask.rest)
        name = f"5e55{seen + 1:04}" + "0123456789abcdef" * 2
        return _room(ask, *([ask.here + form.format(name[:32])] if seen < _END else []))

    return answer


def _longer_query(ask: Ask) -> Script:
    count = ask.rest.count("=")
    mark = "&" if "?" in ask.rest else "?"
    more = f"{ask.here}{ask.rest}{mark}filter=f{count}"
    return _room(ask, *([more] if count < _END else []))


def _facets(ask: Ask) -> Script:
    """Every combination of five filters, in every order."""
    chosen = re.findall(r"(\w)=1", ask.rest)
    free = [name for name in "abcde" if name not in chosen] if len(chosen) < 3 else []
    return _room(
        ask, *(f"{ask.here}?{'&'.join(f'{n}=1' for n in (*chosen, name))}" for name in free)
    )


def _numbered(form: str) -> Answer:
    """A next page, and a next one."""

    def answer(ask: Ask) -> Script:
        number = _number(r"(\d+)$", ask.rest)
        return _room(ask, *([ask.here + form.format(number + 1)] if number < _END else []))

    return answer


def _soft_404(ask: Ask) -> Script:
    """Whatever is asked for is not found, says a 200, and proposes something else."""
    number = _number(r"(\d+)$", ask.rest)
    links = [f"{ask.here}/did-you-mean-{n}" for n in (2 * number + 1, 2 * number + 2) if n < _END]
    return whole(page(ask, *links, text=f"Not found: {ask.here}{ask.rest}")), KEEP


def _cases(ask: Ask) -> Script:
    """Upper and lower case do not matter to this server, and its links are careless."""
    tail = "Page" if not ask.rest else ask.rest[1:]
    spellings = [tail.upper(), tail.lower(), tail.swapcase(), tail.capitalize()]
    return _room(ask, *(f"{ask.here}/{spelling}" for spelling in spellings))


def _mirror(ask: Ask) -> Script:
    """The whole site again below each of its pages."""
    depth = ask.rest.count("/")
    rooms = ["news", "about"] if depth < 5 else []
    return _room(ask, *(f"{ask.here}{ask.rest}/{room}" for room in rooms))


def _slashes(ask: Ask) -> Script:
    """One more slash each time."""
    count = len(ask.rest) - len(ask.rest.lstrip("/"))
    return _room(ask, *([f"{ask.here}/{'/' * count}x"] if count < _END else []))


KINDS = (
    kind("deep", "/a/a/a/…", _segments("a"), NEW, reason="path_repeat"),
    kind("deep_pair", "/a/b/a/b/…", _segments("a", "b"), NEW, reason="path_repeat"),
    kind("deep_three", "/a/b/c/a/b/c/…", _segments("a", "b", "c"), NEW, reason="path_repeat"),
    kind("relative", "a relative link that repeats itself", _relative, NEW, reason="path_repeat"),
    kind("mirror", "the site below each of its pages", _mirror, NEW),
    kind("slashes", "one more slash each time", _slashes, NEW, reason="path_too_deep"),
    kind("calendar", "a calendar by query", _calendar(True), NEW, reason="calendar"),
    kind("calendar_path", "a calendar by path", _calendar(False), NEW, reason="calendar"),
    kind("session_query", "a new session each time, in the query",
         _session("?PHPSESSID={}"), NEW),
    kind("session_path", "a new session each time, in the path",
         _session("/;jsessionid={}"), NEW),
    kind("session_name", "a new session each time, under a name that other ids have, too",
         _session("?sid={}"), NEW, reason="session_id"),
    kind("session_folder", "a new session each time, as a folder",
         _session("/(S({}))/page"), NEW),
    kind("longer_query", "one more filter each time", _longer_query, NEW,
         reason="query_repeat"),
    kind("facets", "every combination of five filters", _facets, NEW),
    kind("next_page", "a next page, and a next one", _numbered("?page={}"), NEW),
    kind("next_number", "likewise, by path", _numbered("/{}"), NEW),
    kind("soft_404", "not found, with proposals", _soft_404, NEW),
    kind("cases", "upper and lower case do not matter", _cases, NEW),
)  # fmt: skip

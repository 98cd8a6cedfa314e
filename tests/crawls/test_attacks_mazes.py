"""Attacks that would never end: traps, circles, copies, and pauses of ten thousand years."""

import json
import re
from datetime import datetime

import pytest

from smartcrawl.rules.traps import MAX_LENGTH, Trap
from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=2)

_QUICK: dict[str, object] = {"RETRY_TIMES": 0, "LOG_LEVEL": "WARNING"}
_COPY = "This page is not here any more; perhaps you would like to read one of these instead. " * 5

#: Addresses that are refused, by their trap; those that fill a budget follow them.
_REFUSED = {
    Trap.PATH_REPEAT: ["/a/b/a/b/a/b/a/b", "/x/x/x/x/y"],
    Trap.PATH_TOO_DEEP: ["/".join(["", *(f"d{n}" for n in range(33))])],
    Trap.QUERY_REPEAT: ["/q?f=1&f=1&f=1&f=1", "/q?" + "&".join(f"f{n}=1" for n in range(33))],
    Trap.CALENDAR: ["/calendar/2099/05/", "/events?month=2199-01"],
    Trap.SESSION_ID: [f"/s?sid=a{n:031}" for n in range(20, 25)],
    Trap.URL_TOO_LONG: ["/" + "l" * MAX_LENGTH],
}
_SESSIONS = [f"/s?sid=a{n:031}" for n in range(20)]
_FILLERS = [f"/filler/{n}" for n in range(30)]
_HOSTS = [f"http://h{n}.trap.invalid/" for n in range(6)]


def test_each_trap_is_left_alone_counted_and_told_with_its_remedy(site: Site, crawl: Crawl):
    """ATT-37: in the reasons of the run, in the closing table and once in the log."""
    named = [path for paths in _REFUSED.values() for path in paths]
    site.pages["/"] = html("Home", *_SESSIONS, *named, *_HOSTS, *_FILLERS)
    domains = json.dumps(["127.0.0.1", "trap.invalid"])
    crawl.declare(f'[sources.s]\nseeds = ["{site.url("/")}"]\nallowed_domains = {domains}\n')
    settings = _QUICK | {"HOST_URL_BUDGET": 31, "MAX_HOSTS": 3}
    counts = {trap: len(paths) for trap, paths in _REFUSED.items()}
    counts |= {Trap.TOO_MANY_HOSTS: 4, Trap.HOST_BUDGET: 20}
    assert set(counts) == set(Trap)

    result = crawl(source="s", max_pages=1, expect=3, settings=settings)

    [run] = crawl.runs()
    assert not run["complete"]
    for trap, count in counts.items():
        told = "1 address, " if count == 1 else f"{count} addresses, such as "
        [reason] = [reason for reason in run["reasons"] if reason.startswith(f"{trap}: ")]
        assert reason.startswith(f"{trap}: {told}http://")
        [line] = [line for line in result.out.splitlines() if f"{trap}: " in line]
        assert trap.words in line
        assert result.err.count(f"({trap}: {trap.words})") == 1
    known = {
        *(site.url(path) for path in ("/", *_SESSIONS, *_FILLERS[:10])), *_HOSTS[:2]
    }  # fmt: skip
    assert {record["url"] for record in crawl.records()} == known

    crawl(source="s", max_pages=1, force=1, expect=3, settings=settings)

    assert {record["url"] for record in crawl.records()} == known
    assert {request.path for request in site.log} == {"/", "/robots.txt"}


class Endless(Site):
    """Answers whatever is asked: below /self with a redirect there, elsewhere with a copy."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def _page(self, path: str) -> Page | None:
        known = super()._page(path)
        if known is not None or path == "/robots.txt":
            return known
        self.asked += 1
        if path.startswith("/self"):
            return Page(status=302, redirect=f"/self?n={self.asked}")
        links = "".join(f'<a href="/soft/{self.asked}-{n}"></a>' for n in range(3))
        return Page(html("Not found", text=_COPY) + links, etag=None)


def test_a_redirect_to_itself_with_ever_another_query_ends(crawl: Crawl):
    """ATT-38: by the number of redirects in a row, and the next run has not learned a trick."""
    with Endless() as site:
        site.pages["/"] = html("Home", "/self", *(f"/other/{n}" for n in range(10)))
        site.pages |= {f"/other/{n}": html(f"Page {n}") for n in range(10)}
        lengths = []
        for _ in range(2):
            site.clear()
            crawl(site.url("/"), expect=None, settings=_QUICK)
            lengths.append(sum(request.path.startswith("/self") for request in site.log))
            [page] = [page for path, page in crawl.pages().items() if path == "/self"]
            assert (page["lastOutcome"], page["httpStatusCode"]) == ("failed", 1004)
            assert page["errorMessage"].startswith("redirected too often: ")
            assert crawl.counts_add_up()

        assert len(set(lengths)) == 1
        assert 5 <= lengths[0] <= 11
        assert crawl.runs()[0]["complete"]
        assert {crawl.outcomes()[f"/other/{n}"] for n in range(10)} == {"unchanged"}


def test_copies_without_end_are_one_page_and_end_with_the_budget(crawl: Crawl):
    """ATT-37, ATT-42: not found, says a 200, and proposes three others with the same text."""
    with Endless() as site:
        site.pages["/"] = html("Home", "/soft/0", text="needle")
        settings = _QUICK | {"HOST_URL_BUDGET": 60}
        known = []
        for _ in range(2):
            site.clear()
            result = crawl(site.url("/"), expect=3, settings=settings)

            run = crawl.runs()[0]
            known.append(set(crawl.pages()))
            assert len(site.log) <= 62
            assert re.match(r"host_budget: [\d,]+ addresses, such as http", run["reasons"][0])
            assert "than HOST_URL_BUDGET allows; raise it" in result.out
            assert len(crawl.hits("perhaps")) == 1
            assert crawl.rows("SELECT count(*) FROM record WHERE entry = 1") == [(2,)]
            assert crawl.counts_add_up()

        assert known[0] == known[1]
        assert len(known[0]) == 60
        [first] = [run for run in crawl.runs() if run["run"] == 1]
        assert (first["new"], first["clone"]) == (2, 58)


_NEVER = ["1000000000000", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT", "86400"]
_NOTHING = ["Fri, 31 Dec 1999 23:59:59 GMT", "-1", "0", "soon", "1e9", "", "1;2", "99 years"]


_BUSY = (429, 503)


def test_a_server_cannot_hold_a_run_for_longer_than_it_may(site: Site, crawl: Crawl):
    """ATT-40: what is too long ends the visit, what says nothing is a further try."""
    values = [*_NEVER, *_NOTHING]
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(len(values))))
    for n, value in enumerate(values):
        site.pages[f"/{n}"] = Page("later", _BUSY[n % 2], headers={"Retry-After": value})

    crawl(site.url("/"), expect=3, settings=_QUICK | {"RETRY_TIMES": 1})

    pages = crawl.pages()
    for n, value in enumerate(values):
        page = pages[f"/{n}"]
        assert (page["lastOutcome"], page["httpStatusCode"]) == ("failed", _BUSY[n % 2]), value
        assert site.count(f"/{n}") == (1 if value in _NEVER else 2), value
        seconds = (moment(page["nextCrawlAt"]) - moment(page["lastChecked"])).total_seconds()
        least = 86_400 if value in _NEVER else 600
        assert least <= seconds <= 1.1 * least, value


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)

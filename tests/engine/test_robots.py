"""robots.txt: groups, matches, requests, and the storage of rules."""

import asyncio
import codecs
import json
import logging
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from scrapy import Request, signals
from scrapy.core.downloader import Slot
from scrapy.exceptions import DownloadTimeoutError, NotConfigured
from scrapy.http import Response
from scrapy.http.request import NO_CALLBACK
from scrapy.robotstxt import ProtegoRobotParser, RobotParser
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager

from smartcrawl import settings as shipped
from smartcrawl.engine.download.robots import MAX_DOWNLOAD, RobotsDownloads
from smartcrawl.extract.robots_txt import (
    LIMIT,
    MAX_CRAWL_DELAY,
    AllowFirstRobotParser,
    Rfc9309RobotParser,
    robots_txt_as_utf8,
    robots_txt_delay,
)
from smartcrawl.middlewares import RobotsMiddleware
from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.exceptions import (
    RobotsDisallowedError,
    RobotsUnknownError,
    SettingError,
    TurnSpentError,
)
from smartcrawl.model.pages import Page, Traffic, VisitAttempt
from smartcrawl.rules.model import Fault
from smartcrawl.sources.site import SiteSource
from smartcrawl.spiders.base import VisitSpider

DATA = Path(__file__).parents[1] / "data" / "robots"
GOOGLE = json.loads((DATA / "google-robots.json").read_text("utf-8"))
PARSERS = [Rfc9309RobotParser, AllowFirstRobotParser]
OURS = "smartcrawl/0.1.0 (incremental crawler)"


def allowed(text: str | bytes, path: str, agent: str = OURS, kind: type = Rfc9309RobotParser):
    body = text.encode() if isinstance(text, str) else text
    return kind.from_crawler(None, body).allowed(f"http://site.example{path}", agent)


def seed(text: str, path: str, agent: str = OURS) -> bool:
    return allowed(text, path, agent, AllowFirstRobotParser)


def suite(name: str) -> bytes:
    return (DATA / name).read_bytes()


# RFC 9309


#: Google's matcher takes addresses as they are, the RFC compares octets whatever their spelling
#: (section 2.2.2); and Google's takes a bare name, ours the user agent that is sent.
OTHERWISE = [
    ("ID_Encoding", "http://foo.bar/foo/bar/ツ"),
    ("ID_Encoding", "http://foo.bar/foo/bar/baz"),
    ("GoogleOnly_AcceptUserAgentUpToFirstSpace", "http://foo.bar/x/y"),
]


def is_otherwise(case: dict) -> bool:
    if case["test"].startswith("GoogleOnly_Accept"):
        return case["agent"] == "Foo Bar"
    return not case["allowed"] and (case["test"], case["url"]) in OTHERWISE


@pytest.mark.covers("M-26")
def test_the_cases_of_google_hold_but_for_four_that_the_rfc_decides_otherwise():
    wrong = [
        case
        for case in GOOGLE
        if Rfc9309RobotParser(case["robots"].encode()).allowed(case["url"], case["agent"])
        is not case["allowed"]
    ]

    assert len(GOOGLE) == 142
    assert wrong == [case for case in GOOGLE if is_otherwise(case)]
    assert len(wrong) == 4


SUITE = [
    ("rfc9309-example-longest-match-robots.txt", "foobot", "/example/page/", True),
    ("rfc9309-example-longest-match-robots.txt", "foobot", "/example/page/disallowed.gif", False),
    ("rfc9309-example-rule-group-merging.txt", "ExampleBot", "/foo", False),
    ("rfc9309-example-rule-group-merging.txt", "ExampleBot", "/bar", False),
    ("rfc9309-example-rule-group-merging.txt", "ExampleBot", "/baz", False),
    ("rfc9309-example-rule-group-merging.txt", "BazBot", "/baz", False),
    ("rfc9309-example-rule-group-merging.txt", "BazBot", "/foo", True),
    ("rfc9309-example-rule-group-merging.txt", "other", "/baz", True),
    ("rfc9309-example-simple-robots.txt", "other", "/a.gif", False),
    ("rfc9309-example-simple-robots.txt", "other", "/a.gif?b", True),
    ("rfc9309-example-simple-robots.txt", "other", "/publications/", True),
    ("rfc9309-example-simple-robots.txt", "foobot", "/publications/", False),
    ("rfc9309-example-simple-robots.txt", "foobot", "/example/page.html", True),
    ("rfc9309-example-simple-robots.txt", "barbot", "/example/page.html", False),
    ("rfc9309-example-simple-robots.txt", "bazbot", "/example/page.html", False),
    ("rfc9309-example-simple-robots.txt", "bazbot", "/a.gif", True),
    ("rfc9309-example-simple-robots.txt", "quxbot", "/example/", True),
    ("crawl-delay-group-merging.txt", "mybot", "/private/", False),
    ("crawl-delay-group-merging.txt", "yourbot", "/private/", False),
    ("crawl-delay-group-merging.txt", "yourbot", "/login/", False),
    ("crawl-delay-group-merging.txt", "other", "/private/", True),
    ("extensions-group-merging.txt", "mybot", "/private/", False),
    ("extensions-group-merging.txt", "yourbot", "/private/", False),
    ("extensions-group-merging.txt", "yourbot", "/login/", False),
    ("extensions-group-merging.txt", "other", "/llms.txt", True),
    ("extensions-group-merging.txt", "other", "/a", False),
    ("merge-rules.txt", "wget", "/foo/bar", True),  # equal length: the least restrictive
    ("merge-rules.txt", "wget", "/%74mp/bar", False),
    ("merge-rules.txt", "curl", "/ckh/bar", False),
    ("merge-rules.txt", "other", "/foo/bar", False),
    ("precedence-of-rules.txt", "wget", "/foo", True),
    ("precedence-of-rules.txt", "wget", "/a", False),
    ("precedence-of-rules.txt", "testy", "/foo/bar", True),
    ("precedence-of-rules.txt", "testy", "/foo/baz", False),
    ("many-user-agents.txt", "OutfoxBot/0.7", "/a", False),
    ("many-user-agents.txt", "wget", "/a", False),
    ("many-user-agents.txt", "smartcrawl", "/a", True),
    ("many-user-agents.txt", "smartcrawl", "/bot-trap/", False),
    ("wildcards.txt", "any", "/gp/registry/wishlist/x/reserve", False),
    ("wildcards.txt", "Googlebot/2.1", "/any/sim/B001132UEE", False),
    ("wildcards.txt", "any", "/wishlist/universal-1", True),
    ("twitter.com-robots.txt", "any", "/search?q=a", False),
    ("twitter.com-robots.txt", "any", "/search", True),
    ("format-errors-robots.txt", "bot1", "/whitespace-before-colon/", False),
    ("format-errors-robots.txt", "bot1", "/no-colon/", False),
    ("format-errors-robots.txt", "bot2", "/no-colon-useragent/", False),
    ("format-errors-robots.txt", "bot3", "/whitespace-before-colon", True),
    ("format-errors-robots.txt", "bot3", "/other", False),
    ("directive-typos-robots.txt", "bot1", "/dissalow/", False),
    ("directive-typos-robots.txt", "bot2", "/useragent/", False),
    ("directive-typos-robots.txt", "bot4", "/useragent-no-colon/", False),
    ("robots-with-utf8-bom.txt", "any", "/profile", False),
    ("robots-with-utf16le-bom.txt", "any", "/profile", False),
    ("robots-with-utf16be-bom.txt", "any", "/profile", False),
    ("robots-with-utf16be-bom.txt", "any", "/other", True),
]


@pytest.mark.covers("M-26")
@pytest.mark.parametrize(("name", "agent", "path", "answer"), SUITE)
def test_the_files_of_crawler_commons_are_read(name: str, agent: str, path: str, answer: bool):
    assert allowed(suite(name), path, agent) is answer


@pytest.mark.covers("M-26")
@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("smartcrawl", True),
        ("SmartCrawl", True),
        ("smartcrawl/2.0", True),
        ("smartcrawl*", True),
        ("smartcrawl bot", True),
        ("smart", False),
        ("crawl", False),
        ("crawler", False),
        ("incremental", False),
        ("smartcrawler", False),
        ("", False),
        ("ü", False),
    ],
)
def test_a_group_is_ours_by_the_whole_name_of_the_product(name: str, ours: bool):
    text = f"User-agent: {name}\nDisallow: /a\n\nUser-agent: *\nDisallow: /b\n"

    assert allowed(text, "/a") is not ours
    assert allowed(text, "/b") is ours


def test_a_product_within_a_browsers_name_is_found_and_counts_before_it():
    browser = "Mozilla/5.0 (compatible; Foobot/1.0; +http://foo.example/1)"
    text = (
        "User-agent: mozilla\nDisallow: /b\n\nUser-agent: foobot\nUser-agent: foo\nDisallow: /a\n"
    )

    assert not allowed(text, "/a", browser)
    assert allowed(text.replace("foobot", "compatible"), "/a", browser)
    assert not allowed(text.replace("foobot", "compatible"), "/b", browser)
    assert not allowed(text, "/b", "Mozilla/5.0")
    assert allowed("User-agent: x\nDisallow: /\n", "/b", "")


def test_a_pattern_is_compared_octet_by_octet_whatever_its_spelling():
    assert not allowed("User-agent: *\nDisallow: /ü\n", "/%C3%BC")
    assert not allowed("User-agent: *\nDisallow: /%c3%bc\n", "/%C3%BC")
    assert not allowed(b"User-agent: *\nDisallow: /\xfc\n", "/%FC")  # Latin-1
    assert allowed(b"User-agent: *\nDisallow: /\xfc\n", "/u")
    assert not allowed("User-agent: *\nDisallow: /a b\n", "/a%20b")


def test_sitemaps_are_of_no_group_and_end_none():
    parser = Rfc9309RobotParser(suite("sitemap-robots.txt"))
    assert parser.sitemaps == [
        "http://domain.com/sitemap.xml", "http://domain.com/dir/MixedCased-sitemap.xml"
    ]  # fmt: skip
    text = "User-agent: smartcrawl\nSitemap: /s\nUser-agent: x\nDisallow: /a\n"
    assert not allowed(text, "/a")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_the_rfc_says(end: str):
    text = end.join(["User-agent: *", "Disallow: /a # secret", "Disallow: /c\u2028Allow: /a", ""])

    assert not allowed(text, "/a")
    assert not allowed(text, "/c%E2%80%A8Allow:%20/a")
    assert allowed(text, "/c")


@pytest.mark.parametrize("kind", PARSERS)
@pytest.mark.parametrize(
    "body",
    [
        b"User-agent: x\n" * 17_000 + b"Disallow: /a\nCrawl-delay: 1\n" * 9_000,
        b"".join(b"User-agent: a%d\nCrawl-delay: 1\n" % n for n in range(15_000)),
        b"User-agent: *\n" + b"Disallow: /*a*a*a*a*a*a*b\n" * 19_000,
        b"User-agent: *\nDisallow: /" + b"*a" * 250_000 + b"b\n",
        b"\0" * LIMIT,
        b":" * LIMIT,
    ],
    ids=["agents-rules", "delays", "wildcards", "one-pattern", "nul", "colons"],
)
def test_no_file_takes_long(kind: type[RobotParser], body: bytes):
    """The bound is wide: a backtracking matcher would take minutes."""
    began = time.process_time()
    parser = kind.from_crawler(None, body)

    assert parser.allowed("http://site.example/" + "a" * 2000, OURS)
    assert time.process_time() - began < 5


# Crawl-delay


@pytest.mark.covers("R2-73")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("5", 5), ("1.5", 1.5), (".5", 0.5), ("0", 0), ("31", 30), ("1e9", 30), ("30", 30),
        ("", None), ("-1", None), ("nan", None), ("inf", None), ("abc", None), ("5 s", None),
        ("1,5", None),
    ],
)  # fmt: skip
def test_a_crawl_delay_is_a_number_of_seconds_up_to_thirty(value: str, seconds: float | None):
    assert robots_txt_delay(value) == seconds
    for kind in PARSERS:
        parser = kind.from_crawler(None, f"User-agent: *\nCrawl-delay: {value}\n".encode())
        assert parser.crawl_delay(OURS) == seconds
    assert MAX_CRAWL_DELAY == 30


@pytest.mark.covers("R2-73")
def test_a_crawl_delay_is_of_the_agents_right_above_it():
    parser = Rfc9309RobotParser(suite("crawl-delay-group-merging.txt"))
    assert parser.crawl_delay("mybot") == 10
    assert parser.crawl_delay("yourbot") is None
    assert parser.crawl_delay("other") == 30
    parser = Rfc9309RobotParser(
        b"User-agent: slurp\nCrawl-delay: 1\nUser-agent: *\nUser-agent: a\nDisallow: /x\n"
        b"Crawl-delay: 2\nCrawl-delay: 1\n\nUser-agent: a\nCrawl-delay: 7\n"
    )
    assert [parser.crawl_delay(agent) for agent in ("slurp", "a", "other")] == [1, 7, 2]
    assert not parser.allowed("http://site.example/x", "slurp")
    assert Rfc9309RobotParser(suite("twitter.com-robots.txt")).crawl_delay("slurp") == 1


# Seed 002


@pytest.mark.covers("R2-70")
def test_the_seeds_directives_are_read_as_it_says():
    text = (
        "# Disallow: /comment\n  \nnonsense\nDisallow: /before\n"
        "  USER-agent :  *  \r\n"
        "DISALLOW: /a:b\n"
        "disallow /no-colon\n"
        "Dissallow: /misspelt\n"
        "Disallow: /c # d\n"
        "sitemap: http://site.example/s.xml\n"
        "crawl-DELAY: 1.5\n"
        "aLLow: /a:b/c\n"
    )
    parser = AllowFirstRobotParser(text.encode())

    paths = ("/comment", "/before", "/no-colon", "/misspelt", "/c", "/a", "/a:b/c")
    assert all(parser.allowed(f"http://site.example{path}", OURS) for path in paths)
    assert not parser.allowed("http://site.example/a:b", OURS)
    assert not parser.allowed("http://site.example/a:bc", OURS)
    assert parser.crawl_delay(OURS) == 1.5
    assert parser.sitemaps == ["http://site.example/s.xml"]


@pytest.mark.covers("R2-71")
def test_the_seeds_groups_apply_by_star_or_by_a_part_of_our_name():
    text = (
        "User-agent: CRAWL\nDisallow: /part\nDisallow:\n\nUser-agent: *\nDisallow: /star\n\n"
        "User-agent: other\nDisallow: /other\nSitemap: /s\nCrawl-delay: 9\n"
        "User-agent: smartcrawl\nUser-agent: another\nDisallow: /last-name-counts\n"
    )
    parser = AllowFirstRobotParser(text.encode())

    refused = ["/part", "/star"]
    paths = ("/part", "/star", "/other", "/last-name-counts", "/")
    assert [p for p in paths if not parser.allowed(f"http://site.example{p}", OURS)] == refused
    assert [p for p in paths if not parser.allowed(f"http://site.example{p}", "x")] == ["/star"]
    assert parser.sitemaps == ["/s"]
    assert parser.crawl_delay(OURS) is None
    assert parser.crawl_delay("nobody") is None
    assert parser.crawl_delay("Other/1") == 9
    assert seed("User-agent: *\nAllow:\nDisallow: /\n", "/a") is False


@pytest.mark.covers("R2-72", "M-26")
@pytest.mark.parametrize(
    ("rules", "path", "answer"),
    [
        ("Allow: /\nDisallow: /a/b", "/a/b", True),  # the RFC says no: the longest counts
        ("Disallow: /a/b\nAllow: /a", "/a/b", True),
        ("Disallow: /a", "/b", True),
        ("Disallow: /a", "/ab", False),
        ("Disallow: /A", "/a", True),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/ab", True),
        ("Disallow: /a$b", "/a$b", False),
        ("Disallow: /a*b", "/axxb", False),
        ("Disallow: /a*b", "/ab", False),
        ("Disallow: /a*b", "/axbc", True),  # over the whole path
        ("Disallow: /a*b*", "/axbc", False),
        ("Disallow: /a*b$", "/axb", False),
        ("Disallow: *.gif", "/x/y.gif", False),
        ("Disallow: *.gif", "/x/ygif", True),  # a dot is a dot
        ("Disallow: /(a|b)+", "/a", True),
        ("Disallow: /(a|b)+", "/(a|b)+", False),
        ("Disallow: /a[*", "/a[x", False),
        ("Disallow: /a*ab", "/ab", True),
        ("Disallow: /*b*ab", "/b/ab", False),
        ("Disallow: /ab*ba", "/aba", True),  # no character counts twice
        ("Disallow: /*?", "/a?", True),
        ("Disallow: /a?b", "/a?bc", False),
        ("Disallow: /ü", "/%C3%BC", False),
        ("Disallow: /", "", False),
    ],
)
def test_the_seeds_matcher_tries_allows_first(rules: str, path: str, answer: bool):
    assert seed(f"User-agent: *\n{rules}\n", path) is answer


@pytest.mark.covers("M-26")
def test_the_longest_match_is_the_default_and_differs_from_the_seeds():
    text = "User-agent: *\nAllow: /\nDisallow: /a/b\n"

    assert not allowed(text, "/a/b")
    assert seed(text, "/a/b")
    assert shipped.ROBOTSTXT_PARSER == "smartcrawl.extract.robots_txt.Rfc9309RobotParser"


# The size


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_long_file_is_cut_at_its_last_whole_line(end: bytes):
    line = b"Disallow: /private" + end
    head = b"User-agent: *" + end
    whole = head + line * ((LIMIT - len(head)) // len(line))
    rest = LIMIT - len(whole)

    cut = robots_txt_as_utf8(whole + b"D" * (rest + 1))
    assert len(cut) <= LIMIT
    assert cut.rstrip() == whole.rstrip()
    assert robots_txt_as_utf8(whole + b"D" * rest) == whole + b"D" * rest  # not a byte too long
    assert robots_txt_as_utf8(b"x" * (LIMIT + 1)) == b""
    assert robots_txt_as_utf8(b"x" * LIMIT + end + b"y") == b"x" * LIMIT


def test_rules_within_500_kib_count_and_those_behind_do_not():
    filler = "# filler\n"
    text = "User-agent: *\nDisallow: /first\n" + filler * 70_000 + "Disallow: /last\n"

    for kind in PARSERS:
        assert not allowed(text, "/first", kind=kind)
        assert allowed(text, "/last", kind=kind)
        long = codecs.BOM_UTF16_LE + text.encode("utf-16-le")
        assert not allowed(long, "/first", kind=kind)


# Asking


class Run:
    """The part of a run that the rules use."""

    forced = False

    def __init__(self, stored: StoredRobots | None = None) -> None:
        self.stored = stored
        self.read: list[tuple[str, StoredRobots, float | None]] = []
        self.reasons: list[str] = []
        self.hosts = self  #: expected those notes, too

    def stored_robots(self, origin: str) -> StoredRobots | None:
        return self.stored

    def robots_of_others(self, origin: str) -> StoredRobots | None:
        return None

    def sitemaps_named(self, origin: str, urls: list[str]) -> None:
        self.sitemaps = [*urls]

    def robots_failed(self, origin: str, why: str) -> None:
        self.failures = [*getattr(self, "failures", []), (origin, why)]

    def robots_read(self, origin, robots, crawl_delay=None) -> None:
        self.read.append((origin, robots, crawl_delay))

    def incomplete(self, reason: str) -> None:
        self.reasons.append(reason)


class Engine:
    """A crawler whose engine gives prepared answers."""

    def __init__(self, *answers: object, run: Run | None = None, **settings: object) -> None:
        ours = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}
        self.settings = Settings(ours | settings)
        self.signals = SignalManager()
        self.engine = self
        self.downloader = SimpleNamespace(
            slots={"site.example": Slot(8, 0.1, 0.5)},
            per_slot_settings={},
            get_slot_key=lambda request: request.meta.get("download_slot", "site.example"),
        )
        self.spider = SimpleNamespace(run=run)
        self.answers = list(answers)
        self.asked: list[Request] = []

    async def download_async(self, request: Request) -> Response:
        self.asked.append(request)
        await asyncio.sleep(0)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = answer
        return Response(request.url, status=status, headers=headers, body=body)

    def rules(self) -> RobotsDownloads:
        return RobotsDownloads.from_crawler(self)


PAGE = Request("http://site.example/a")
ETAG = {"ETag": '"1"', "Last-Modified": "Sat, 01 Jan 2000 00:00:00 GMT"}
BODY = b"User-agent: *\nDisallow: /a\n"
OK = (200, ETAG, BODY)


def answer(status: int, location: str | None = None) -> tuple[int, dict[str, str], bytes]:
    return status, {} if location is None else {"Location": location}, b"Disallow: /"


def kept(age: float = 60, **more: object) -> StoredRobots:
    values = {"status": 200, "etag": '"1"', "last_modified": None, "body": BODY} | more
    return StoredRobots(int(time.time() - age), **values)


def ask(engine: Engine, url: str = PAGE.url):
    return asyncio.run(engine.rules().of(Request(url)))


def sent(request: Request) -> dict[bytes, bytes]:
    names = (b"If-None-Match", b"If-Modified-Since")
    return {name: request.headers[name] for name in names if name in request.headers}


def test_what_is_asked_is_robots_txt_of_the_origin_and_what_is_answered_is_kept():
    run = Run()
    engine = Engine((200, ETAG, codecs.BOM_UTF8 + BODY + b"Crawl-delay: 2\n"), run=run)
    before = int(time.time())

    rules = ask(engine, "http://me:secret@site.example:8080/a")

    [request] = engine.asked
    assert request.url == "http://site.example:8080/robots.txt"
    assert request.meta["dont_obey_robotstxt"]
    assert request.meta["download_maxsize"] == MAX_DOWNLOAD
    assert request.callback is NO_CALLBACK
    assert sent(request) == {}
    assert not rules.allows(PAGE.url)
    assert rules.allows("http://site.example/b")
    [(origin, stored, delay)] = run.read
    assert (origin, delay) == ("http://site.example:8080", 2)
    assert (stored.status, stored.etag, stored.last_modified) == (200, '"1"', ETAG["Last-Modified"])
    assert stored.body == BODY + b"Crawl-delay: 2\n"
    assert before <= stored.fetched_at <= time.time()
    assert run.reasons == []


def test_many_pages_ask_once_and_another_origin_asks_its_own():
    engine = Engine(OK, OK, OK)

    async def all_of_them() -> None:
        robots = engine.rules()
        await asyncio.gather(*(robots.of(Request(f"http://site.example/{n}")) for n in range(9)))
        await robots.of(PAGE)
        await robots.of(Request("https://site.example/a"))
        await robots.of(Request("http://site.example:81/a"))

    asyncio.run(all_of_them())

    assert [request.url for request in engine.asked] == [
        "http://site.example/robots.txt",
        "https://site.example/robots.txt",
        "http://site.example:81/robots.txt",
    ]


@pytest.mark.covers("M-27")
def test_what_is_kept_is_asked_conditionally_and_a_304_renews_it():
    run = Run(kept(age=99_999_999, last_modified="yesterday"))
    engine = Engine((304, {"ETag": 'W/"1"'}, b""), run=run, ROBOTS_MAX_STALE_SECONDS=0)

    rules = ask(engine)

    assert sent(engine.asked[0]) == {b"If-None-Match": b'"1"', b"If-Modified-Since": b"yesterday"}
    assert not rules.allows(PAGE.url)
    [(_, stored, _)] = run.read
    assert (stored.etag, stored.last_modified, stored.body) == ('W/"1"', "yesterday", BODY)
    assert time.time() - stored.fetched_at < 60


@pytest.mark.covers("M-27", "RD-04")
def test_a_304_that_names_another_version_of_robots_txt_is_asked_again_without_a_condition():
    """RFC 9111, 4.3.4: otherwise the stored rules would get the ETag of another version."""
    run = Run(kept(last_modified="yesterday"))
    other = (304, {"ETag": '"2"'}, b"")
    engine = Engine(other, (200, {"ETag": '"2"'}, b"User-agent: *\nDisallow: /b\n"), run=run)

    rules = ask(engine)

    assert [bool(sent(request)) for request in engine.asked] == [True, False]
    assert rules.allows(PAGE.url)
    assert not rules.allows("http://site.example/b")
    [(_, stored, _)] = run.read
    assert (stored.etag, stored.last_modified) == ('"2"', None)


@pytest.mark.parametrize(("etag", "requests"), [(None, 2), ('"1"', 1)])
def test_a_304_with_another_date_confirms_a_robots_txt_by_its_etag_only(
    etag: str | None, requests: int
):
    early, late = "Mon, 05 Jan 2026 10:00:00 GMT", "Tue, 06 Jan 2026 10:00:00 GMT"
    run = Run(kept(etag=etag, last_modified=late))
    engine = Engine((304, {"Last-Modified": early}, b""), OK, run=run)

    ask(engine)

    assert [bool(sent(request)) for request in engine.asked] == [True, False][:requests]


def test_a_robots_txt_that_no_version_confirms_counts_as_it_was_kept():
    run = Run(kept())
    engine = Engine((304, {"ETag": '"2"'}, b""), (304, {"ETag": '"3"'}, b""), run=run)

    assert not ask(engine).allows(PAGE.url)

    assert run.read == []
    assert len(engine.asked) == 2


def test_a_304_to_the_date_of_robots_txt_stores_no_etag():
    run = Run(kept(etag=None, last_modified="yesterday"))

    ask(Engine((304, {"ETag": '"2"'}, b""), run=run))

    [(_, stored, _)] = run.read
    assert (stored.etag, stored.last_modified) == (None, "yesterday")


def test_a_forced_run_asks_robots_txt_without_validators_too():
    run = Run(kept())
    run.forced = True
    engine = Engine(OK, run=run)

    ask(engine)

    assert sent(engine.asked[0]) == {}


@pytest.mark.covers("M-27")
def test_a_304_that_was_not_asked_for_says_nothing():
    engine = Engine((304, {}, b""), run=Run(kept(etag=None)), ROBOTS_MAX_STALE_SECONDS=0)

    assert ask(engine).unknown == "status 304"


@pytest.mark.covers("M-27")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 418, 451, 499])
def test_a_4xx_means_that_there_are_no_rules_and_is_kept(status: int):
    run = Run(kept())

    rules = ask(Engine(answer(status), run=run))

    assert rules.allows(PAGE.url)
    assert rules.unknown is None
    [(_, stored, delay)] = run.read
    assert (stored.status, stored.etag, stored.body, delay) == (status, None, b"", None)


TROUBLE = [answer(429), answer(500), answer(503), answer(599), answer(304), answer(301),
           DownloadTimeoutError("too late")]  # fmt: skip


@pytest.mark.covers("M-27")
@pytest.mark.parametrize("trouble", TROUBLE, ids=str)
@pytest.mark.parametrize("copy", ["none", "old", "none counts"])
def test_without_a_copy_nothing_is_known_and_the_run_is_incomplete(trouble, copy: str, caplog):
    run = Run({"old": kept(etag=None, age=101)}.get(copy) or (
        kept(etag=None) if copy == "none counts" else None))  # fmt: skip
    stale = 0 if copy == "none counts" else 100

    rules = ask(Engine(trouble, run=run, ROBOTS_MAX_STALE_SECONDS=stale))

    assert rules.unknown is not None
    assert rules.fault is Fault.ROBOTS_UNKNOWN
    assert run.reasons == ["robots_unknown: site.example"]
    assert run.read == []
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "no page of this host is requested" in record.getMessage()


@pytest.mark.covers("M-27")
@pytest.mark.parametrize("trouble", TROUBLE, ids=str)
@pytest.mark.parametrize("status", [200, 404])
def test_a_copy_that_is_young_enough_counts_and_a_warning_says_since_when(
    trouble, status: int, caplog
):
    copy = StoredRobots(int(time.time()) - 95, status, body=BODY if status == 200 else b"")
    run = Run(copy)

    rules = ask(Engine(trouble, run=run, ROBOTS_MAX_STALE_SECONDS=100))

    assert rules.unknown is None
    assert rules.allows(PAGE.url) is (status == 404)
    assert rules.allows("http://site.example/b")
    assert (run.reasons, run.read) == ([], [])  # a copy grows no younger by being used
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(copy.fetched_at))
    assert f"the copy of {since}+00:00 is used" in record.getMessage()


@pytest.mark.parametrize("fault", [Fault.ADDRESS_REFUSED, Fault.HOST_DOWN, Fault.DNS])
def test_what_no_robots_txt_would_change_keeps_its_name(monkeypatch, fault: Fault):
    monkeypatch.setattr(
        "smartcrawl.engine.download.robots.download_fault", lambda error, url: (fault, "so")
    )
    run = Run()

    rules = ask(Engine(DownloadTimeoutError("so"), run=run))

    ours = fault is not Fault.DNS
    assert rules.fault is (fault if ours else Fault.ROBOTS_UNKNOWN)
    assert run.reasons == ([] if ours else ["robots_unknown: site.example"])


class Broken(RobotParser):
    """A parser that fails."""

    @classmethod
    def from_crawler(cls, crawler, robotstxt_body):
        raise ValueError("cannot read it")

    def allowed(self, url, user_agent):
        raise NotImplementedError


def test_rules_that_cannot_be_read_are_unknown():
    run = Run()

    rules = ask(Engine(OK, run=run, ROBOTSTXT_PARSER=Broken))

    assert rules.unknown == "cannot read it"
    assert run.reasons == ["robots_unknown: site.example"]
    assert run.read == []


def test_a_spider_without_a_run_obeys_as_well():
    assert not ask(Engine(OK)).allows(PAGE.url)
    assert ask(Engine(answer(503))).unknown == "status 503"


# Redirects


def chain(hops: int) -> list[tuple[int, dict[str, str], bytes]]:
    return [answer((301, 302, 303, 307, 308)[n % 5], f"/r{n}") for n in range(hops)]


@pytest.mark.covers("M-27")
def test_five_redirects_are_followed_and_a_sixth_is_not():
    five = Engine(*chain(5), OK)
    assert not ask(five).allows(PAGE.url)
    assert [request.url.rpartition("/")[2] for request in five.asked] == [
        "robots.txt", "r0", "r1", "r2", "r3", "r4"
    ]  # fmt: skip

    six = Engine(*chain(6), OK, run=(run := Run()))
    assert ask(six).unknown == "more than 5 redirects"
    assert len(six.asked) == 6
    assert run.reasons == ["robots_unknown: site.example"]


def test_validators_belong_to_one_address():
    """Behind a redirect they belong to another file, whose 304 confirms nothing here."""
    run = Run(kept())
    engine = Engine(answer(301, "https://other.example/x"), OK, run=run)

    ask(engine)

    assert engine.asked[1].url == "https://other.example/x"
    assert sent(engine.asked[0]) == {b"If-None-Match": b'"1"'}
    assert sent(engine.asked[1]) == {}
    [(origin, stored, _)] = run.read
    assert (origin, stored.etag, stored.last_modified) == ("http://site.example", None, None)
    assert stored.body == BODY
    there = Engine(answer(301, "/x"), (304, {}, b""), run=Run(kept()), ROBOTS_MAX_STALE_SECONDS=0)
    assert ask(there).unknown == "status 304"


# A long run


@pytest.mark.covers("M-27")
def test_in_a_long_run_rules_are_asked_again_conditionally(monkeypatch: pytest.MonkeyPatch):
    now = [1000.0]
    monkeypatch.setattr("smartcrawl.engine.download.robots.time.monotonic", lambda: now[0])
    run = Run()
    engine = Engine(OK, (304, {}, b""), answer(503), run=run, ROBOTS_TTL_SECONDS=100)

    async def all_of_it() -> None:
        robots = engine.rules()
        for at, asked in ((1000, 1), (1100, 1), (1101, 2), (1200, 2), (1202, 3), (1300, 3)):
            now[0] = at
            rules = await robots.of(PAGE)
            assert len(engine.asked) == asked
            assert not rules.allows(PAGE.url)

    asyncio.run(all_of_it())

    assert sent(engine.asked[1]) == {
        b"If-None-Match": b'"1"', b"If-Modified-Since": ETAG["Last-Modified"].encode()
    }  # fmt: skip
    assert run.reasons == []


def test_rules_without_an_age_are_asked_once(monkeypatch: pytest.MonkeyPatch):
    now = [1000.0]
    monkeypatch.setattr("smartcrawl.engine.download.robots.time.monotonic", lambda: now[0])
    engine = Engine(OK, ROBOTS_TTL_SECONDS=0)

    async def twice() -> None:
        robots = engine.rules()
        await robots.of(PAGE)
        now[0] = 1e9
        await robots.of(PAGE)

    asyncio.run(twice())

    assert len(engine.asked) == 1


# Holding a host to its delay


def delayed(delay: object, **settings: object) -> tuple[Engine, Slot, RobotsDownloads]:
    body = f"User-agent: *\nCrawl-delay: {delay}\n".encode()
    engine = Engine((200, {}, body), **settings)
    robots = engine.rules()
    asyncio.run(robots.of(PAGE))
    return engine, engine.downloader.slots["site.example"], robots


@pytest.mark.covers("R2-73")
def test_a_slot_never_falls_below_the_crawl_delay():
    engine, slot, _robots = delayed(1.5)
    assert (slot.delay, slot.download_delay()) == (1.5, 1.5)

    def after_an_answer(delay: float, name: str = "site.example") -> float:
        slot.delay = delay  # as AutoThrottle does, which hears of the answer first
        request = Request("http://site.example/b", meta={"download_slot": name})
        engine.signals.send_catch_log(
            signals.response_downloaded, request=request, response=None, spider=None
        )
        return slot.delay

    assert after_an_answer(0.2) == 1.5
    assert after_an_answer(4.0) == 4.0
    assert after_an_answer(0.2, "other.example") == 0.2
    assert engine.downloader.per_slot_settings == {"site.example": {"delay": 1.5, "jitter": 0}}


@pytest.mark.covers("R2-73")
def test_a_longer_delay_of_ours_wins_and_no_delay_leaves_a_slot_alone():
    engine, slot, _robots = delayed(1, DOWNLOAD_DELAY=3)
    assert engine.downloader.per_slot_settings["site.example"]["delay"] == 3
    assert slot.delay == 1  # Scrapy made it; it has DOWNLOAD_DELAY there
    engine, slot, _robots = delayed("none")
    assert (slot.delay, slot.jitter, engine.downloader.per_slot_settings) == (0.1, 0.5, {})
    engine, slot, _robots = delayed("1e9", ROBOTSTXT_PARSER=ProtegoRobotParser)
    assert slot.delay == MAX_CRAWL_DELAY


def test_of_two_origins_on_one_host_the_longer_delay_counts():
    bodies = [f"User-agent: *\nCrawl-delay: {n}\n".encode() for n in (2, 1, 3)]
    engine = Engine(*((200, {}, body) for body in bodies))

    async def all_of_them() -> list[float]:
        robots, found = engine.rules(), []
        for port in (80, 81, 82):
            request = Request(
                f"http://site.example:{port}/", meta={"download_slot": "site.example"}
            )
            await robots.of(request)
            engine.downloader.slots["site.example"].delay = 0.1
            engine.signals.send_catch_log(
                signals.response_downloaded, request=request, response=None, spider=None
            )
            found.append(engine.downloader.slots["site.example"].delay)
            assert engine.downloader.per_slot_settings["site.example"]["delay"] == found[-1]
        return found

    assert asyncio.run(all_of_them()) == [2, 2, 3]


# The middleware


def passes(engine: Engine, request: Request = PAGE) -> None:
    middleware = RobotsMiddleware.from_crawler(engine)
    asyncio.run(middleware.process_request(request))


def test_the_middleware_lets_pass_what_the_rules_allow_and_says_why_not():
    passes(Engine(OK), Request("http://site.example/b"))
    with pytest.raises(RobotsDisallowedError, match=r"disallowed by http://site\.example/robots"):
        passes(Engine(OK))
    with pytest.raises(
        RobotsUnknownError, match=r"robots\.txt could not be read: status 503"
    ) as caught:
        passes(Engine(answer(503)))
    assert caught.value.fault == Fault.ROBOTS_UNKNOWN
    free = Engine()
    passes(free, Request("http://site.example/a", meta={"dont_obey_robotstxt": True}))
    assert free.asked == []


class Shared(Run):
    """A run that several workers share."""

    def __init__(self, *, spent: bool) -> None:
        super().__init__()
        self.source = SiteSource(name="a", seeds=("http://a.example/",))
        self.spent = spent
        self.turns = self
        self.delays: list[tuple[float | None, bool]] = []
        self.given_back: list[int] = []

    def is_spent(self, page, crawl_delay, *, asked) -> bool:
        self.delays.append((crawl_delay, asked))
        return self.spent

    def give_back(self, page) -> None:
        self.given_back.append(page.no)


def first_request(path: str = "b", requests: int = 0) -> Request:
    page = Page(no=7, url=f"http://site.example/{path}", host="site.example", depth=0)
    return Request(
        page.url, meta={"attempt": VisitAttempt(page, traffic=Traffic(requests=requests))}
    )


def test_a_page_waits_for_another_turn_when_robots_txt_had_this_one():
    """Only its first request does, and only if robots.txt allows the page."""
    run = Shared(spent=True)
    rules = (200, {}, BODY + b"Crawl-delay: 2\n")
    with pytest.raises(TurnSpentError) as caught:
        passes(Engine(rules, run=run), first_request())
    assert (run.delays, run.given_back) == ([(2.0, True)], [7])
    failure = SimpleNamespace(value=caught.value, request=first_request())
    assert list(VisitSpider("site").errback(failure)) == []

    passes(Engine(rules, run=run), first_request(requests=1))
    with pytest.raises(RobotsDisallowedError):
        passes(Engine(rules, run=run), first_request("a"))
    assert (len(run.delays), run.given_back) == (2, [7])
    passes(Engine(rules, run=Shared(spent=False)), first_request())


def test_pages_that_waited_for_robots_txt_lost_their_turns_and_later_ones_did_not():
    run = Shared(spent=False)
    middleware = RobotsMiddleware.from_crawler(Engine(OK, run=run))

    async def all_of_them() -> None:
        waiting = [middleware.process_request(first_request()) for _ in range(3)]
        await asyncio.gather(*waiting)
        await middleware.process_request(first_request())

    asyncio.run(all_of_them())
    assert run.delays == 3 * [(None, True)] + [(None, False)]


def test_the_middleware_can_be_switched_off():
    with pytest.raises(NotConfigured):
        RobotsMiddleware.from_crawler(Engine(ROBOTSTXT_OBEY=False))


def test_rules_are_read_for_the_name_that_is_set_and_by_the_parser_that_is_set():
    body = b"User-agent: one\nDisallow: /a\n\nUser-agent: two\nAllow: /a\nDisallow: /a/b\n"
    two = {"USER_AGENT": "two/1"}

    assert not ask(Engine((200, {}, body), USER_AGENT="one/1")).allows(PAGE.url)
    assert ask(Engine((200, {}, body), **two)).allows(PAGE.url)
    named = two | {"ROBOTSTXT_USER_AGENT": "one"}
    assert not ask(Engine((200, {}, body), **named)).allows(PAGE.url)
    deep = "http://site.example/a/b"
    assert not ask(Engine((200, {}, body), **two)).allows(deep)
    first = two | {"ROBOTSTXT_PARSER": "smartcrawl.extract.robots_txt.AllowFirstRobotParser"}
    assert ask(Engine((200, {}, body), **first)).allows(deep)


def test_a_parser_that_does_not_exist_is_named():
    with pytest.raises(SettingError, match=r"ROBOTSTXT_PARSER is 'no\.such\.Parser': expected"):
        Engine(ROBOTSTXT_PARSER="no.such.Parser").rules()

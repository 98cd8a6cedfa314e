"""Answers that are not what they seem, byte by byte: the lane takes none for another page's.

Each kind is crawled by lane and engine from the same registry, and once without misbehaviour:
all three must leave the same registry and index.

Source: RFC 9112 sections 6 to 9; ADR 32.
"""

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, Result, Scrapy, differences
from tests.crawls.crew import facts
from tests.raw_site import End, RawSite, Script, Steps, head, whole

pytestmark = pytest.mark.long(but=6)

_STATS = re.compile(r"'(lane/\w+)': (\d+)")
_EDITED = ("/3", "/11", "/12", "/19", "/25")
_SETTINGS: dict[str, object] = {"STATS_DUMP": "1", "RETRY_TIMES": "2", "DOWNLOAD_TIMEOUT": "20"}


@pytest.fixture(autouse=True)
def lane_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is by default, also where everything else is tried with the lane off."""
    monkeypatch.delenv("REVALIDATION_LANE", raising=False)


def again(crawl: Crawl, site: RawSite, **settings: object) -> Counter[str]:
    """Crawl, and return what the lane counted."""
    result: Result = crawl(site.url(), settings={**_SETTINGS, **settings}, expect=None)
    return Counter({name: int(count) for name, count in _STATS.findall(result.err)})


def wrong(crawl: Crawl, site: RawSite) -> list[str]:
    """The pages of which the registry has another text or another ETag than the site."""
    texts = crawl.texts()
    found = []
    for path, record in crawl.pages().items():
        shown = [hit for hit in crawl.search(site.words(path)) if hit["url"] == site.url(path)]
        etag = site.etag(path) if site.etags else None
        if not shown or record["httpEtag"] != etag:
            found.append(path)
    assert texts
    return found


# One site, three roads


@dataclass
class Roads:
    """A site that was crawled once, and copies of its registry."""

    site: RawSite
    first: Crawl
    folder: Path
    scrapy: Scrapy

    def copy(self, name: str) -> Crawl:
        folder = self.folder / name
        folder.mkdir()
        shutil.copytree(self.first.data_dir, folder / "data")
        return Crawl(folder, self.scrapy)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Iterator[tuple[RawSite, Crawl]]:
    """The site, and a crawl that saw it once."""
    with RawSite() as site:
        first = Crawl(tmp_path_factory.mktemp("first"), ask)
        first(site.url())
        yield site, first


@pytest.fixture(scope="module")
def truth(
    stage: tuple[RawSite, Crawl], tmp_path_factory: pytest.TempPathFactory, ask: Scrapy
) -> dict[str, Any]:
    """What the engine finds where every answer is in order."""
    site, first = stage
    site.restore()
    site.edit(*_EDITED)
    crawl = Roads(site, first, tmp_path_factory.mktemp("truth"), ask).copy("truth")
    again(crawl, site, REVALIDATION_LANE="off")
    return facts(crawl)


@pytest.fixture
def roads(
    stage: tuple[RawSite, Crawl], truth: dict[str, Any], tmp_path: Path, ask: Scrapy
) -> Roads:
    """The site after its edit, which no crawl saw yet."""
    site, first = stage
    site.restore()
    site.edit(*_EDITED)
    return Roads(site, first, tmp_path, ask)


#: An answer that no request asked for, for the page whose neighbour it is.
def _stray(site: RawSite, path: str) -> bytes:
    return site.answer_of(f"/{int(path[1:]) + 1}")


def _body(site: RawSite, path: str) -> bytes:
    return whole(b"<p>unbelievable", "Content-Type: text/html", 'ETag: "stray"')


Kind = Callable[[RawSite, str], Script]


def after(*more: Callable[[RawSite, str], bytes] | bytes | float | End) -> Kind:
    """The right answer in one packet with the first of these, then the others."""

    def kind(site: RawSite, path: str) -> Script:
        steps = [step(site, path) if callable(step) else step for step in more]

        def script(good: bytes) -> Steps:
            if isinstance(steps[0], bytes):
                return (good + steps[0], *steps[1:])
            return (good, *steps)

        return script

    return kind


def changed(make: Callable[[bytes], Steps]) -> Kind:
    """The right answer made into others."""
    return lambda site, path: make


#: Bytes that belong to no request, once for each of these pages.
STRAYS: dict[str, Kind] = {
    "a_304": after(_stray),
    "a_200": after(_body),
    "a_408_and_the_end": after(whole(b"", status="408 Request Timeout"), End.CLOSE),
    "three_304s": after(lambda site, path: 3 * _stray(site, path)),
    "garbage": after(b"\0garbage\r\n"),
    "a_blank_line": after(b"\r\n"),
    "one_byte": after(b"H"),
    "http_0_9": after(b"<html>unbelievable"),
    "the_last_chunk": after(b"0\r\n\r\n"),
    "a_1xx": after(head(status="103 Early Hints")),
}
#: Likewise, when the next request may be under way: the engine takes such an answer.
LATE: dict[str, Kind] = {
    "a_late_304": after(0.005, _stray),
    "a_later_304": after(0.03, _stray),
    "a_late_200": after(0.005, _body),
    "a_late_408": after(0.005, whole(b"", status="408 Request Timeout")),
    "a_304_in_two_pieces": after(b"HTTP/1.1 3", 0.005, b"04 Not Modified\r\n\r\n"),
    "a_late_304_in_two_pieces": after(0.003, b"HTTP/1.1 3", 0.003, b"04 Not Modified\r\n\r\n"),
    "three_late_304s": after(0.003, _stray, 0.003, _stray, 0.003, _stray),
    "late_garbage": after(0.005, b"\0garbage\r\n"),
}


def _once(site: RawSite, kind: Kind, *paths: str) -> None:
    for path in paths:
        site.once[path] = kind(site, path)


@pytest.mark.long(but=4)
@pytest.mark.parametrize("kind", STRAYS)
def test_bytes_after_an_answer_are_no_answer(kind: str, roads: Roads, truth: dict[str, Any]):
    """Lane and engine leave what they leave where nothing was wrong."""
    _once(roads.site, STRAYS[kind], "/5", "/11", "/20")
    lane = roads.copy("lane")
    counts = again(lane, roads.site)
    assert not roads.site.once
    roads.site.restore()
    roads.site.edit(*_EDITED)
    _once(roads.site, STRAYS[kind], "/5", "/11", "/20")
    engine = roads.copy("engine")
    again(engine, roads.site, REVALIDATION_LANE="off")

    assert not list(differences(truth, facts(lane)))
    assert not list(differences(truth, facts(engine)))
    assert counts["lane/strays"] == 3
    assert counts["lane/withdrawn"] >= 3
    assert counts["lane/fallbacks"] == 0


@pytest.mark.parametrize("road", ["auto", "off"], ids=["lane", "engine"])
def test_a_database_of_either_kind_holds_the_same(
    road: str, crawl: Crawl, stage: tuple[RawSite, Crawl], truth: dict[str, Any]
):
    """All kinds in one crawl, each once; what the first registry held is in none of them."""
    site, _ = stage
    site.restore()
    crawl(site.url())
    site.edit(*_EDITED)
    for number, kind in enumerate(STRAYS.values()):
        _once(site, kind, f"/{2 * number + 1}")

    again(crawl, site, REVALIDATION_LANE=road)

    assert not site.once
    assert not list(differences(truth, facts(crawl)))


#: The lane watches a connection for 0.01 s at least: a site that its machine stops for longer than
#: half of that is later than its script says.
_DELAY = 0.005
_TRIALS = 6


def wrong_in_time(site: RawSite, trial: Callable[[int], list[str]]) -> list[str]:
    """Return what a trial finds wrong; again, where the machine delayed what the site sent."""
    wrong: list[str] = []
    for number in range(_TRIALS):
        wrong = trial(number)
        if not wrong:
            break
        wrong.append(f"trial {number}: the site was late by {site.slowest:.4f} s at most")
        if site.slowest < _DELAY:
            break
    return wrong


@pytest.mark.long(but=4)
@pytest.mark.parametrize("kind", LATE)
def test_late_bytes_are_no_answer(kind: str, roads: Roads, truth: dict[str, Any]):
    """The lane is right where not even the engine can be."""
    confirmed = []

    def trial(number: int) -> list[str]:
        roads.site.restore()
        roads.site.edit(*_EDITED)
        _once(roads.site, LATE[kind], "/5", "/11", "/20")
        lane = roads.copy(f"lane{number}")
        confirmed.append(again(lane, roads.site)["lane/not_modified"])
        return list(differences(truth, facts(lane)))

    assert wrong_in_time(roads.site, trial) == []
    assert min(confirmed) > 0


# Answers that are wrong themselves, each time they are asked for


def _status(good: bytes) -> int:
    return int(good.split(b" ", 2)[1])


def _with(good: bytes, *lines: str) -> bytes:
    """Return an answer with more header lines."""
    return good.replace(
        b"\r\n\r\n", "".join(f"\r\n{line}" for line in lines).encode() + b"\r\n\r\n", 1
    )


def _without_length(good: bytes, *lines: str) -> tuple[bytes, bytes]:
    """Return the head of an answer without its length, and its body."""
    top, _, body = good.partition(b"\r\n\r\n")
    return _with(re.sub(rb"\r\nContent-Length: \d+", b"", top) + b"\r\n\r\n", *lines), body


def _chunked(good: bytes, *lines: str, end: bytes = b"0\r\nX-Trailer: 1\r\n\r\n") -> bytes:
    if _status(good) == 304:
        return _with(good, "Transfer-Encoding: chunked")
    top, body = _without_length(good, *(lines or ("Transfer-Encoding: chunked",)))
    parts = (body[:10], body[10:])
    return top + b"".join(b"%x;n=1\r\n%b\r\n" % (len(part), part) for part in parts) + end


def _until_close(good: bytes) -> Steps:
    top, body = _without_length(good)
    return top + body, End.CLOSE


_HINTS = head(f"X-Long: {'y' * 1_000}", status="103 Early Hints")
WRONG: dict[str, Callable[[bytes], Steps]] = {
    "http_0_9": lambda good: (b"<html>unbelievable", End.CLOSE),
    "nuls": lambda good: (bytes(1_000), End.CLOSE),
    "a_banner": lambda good: (b"220 mail.example ESMTP\r\n", End.CLOSE),
    "a_blank_line_first": lambda good: (b"\r\n" + good,),
    "line_feeds_only": lambda good: (good.replace(b"\r\n", b"\n"),),
    "a_line_without_colon": lambda good: (_with(good, "nothing"),),
    "a_folded_line": lambda good: (_with(good, "X-Folded: a", " b"),),
    "a_name_with_a_space": lambda good: (_with(good, "X Y: z"),),
    "http_2": lambda good: (good.replace(b"HTTP/1.1", b"HTTP/2.0", 1),),
    "a_status_of_two_digits": lambda good: (re.sub(rb" \d\d\d ", b" 30 ", good, count=1),),
    "the_length_twice": lambda good: (_with(good, *2 * [f"Content-Length: {_length(good)}"]),),
    "two_lengths": lambda good: (_with(good, "Content-Length: 5", "Content-Length: 7"),),
    "a_negative_length": lambda good: (_with(_without_length(good)[0], "Content-Length: -1"),),
    "a_304_with_a_length": lambda good: (
        _with(good, "Content-Length: 5") if _status(good) == 304 else good,
    ),
    "a_304_with_a_body": lambda good: (
        _with(good, "Content-Length: 5") + b"12345" if _status(good) == 304 else good,
    ),
    "length_and_chunks": lambda good: (
        _chunked(good, "Transfer-Encoding: chunked", "Content-Length: 3"),
    ),
    "chunks": lambda good: (_chunked(good),),
    "chunks_and_a_blank_line": lambda good: (_chunked(good, end=b"0\r\n\r\n\r\n"),),
    "chunks_without_an_end": lambda good: (_chunked(good, end=b""), End.CLOSE),
    "an_unknown_coding": lambda good: (_chunked(good, "Transfer-Encoding: gzip, chunked"),),
    "cut_in_the_head": lambda good: (good[:30], End.CLOSE),
    "cut_in_the_body": lambda good: (good[:-20], End.CLOSE),
    "reset_in_the_head": lambda good: (good[:30], End.RESET),
    "reset_in_the_body": lambda good: (good[:-20], End.RESET),
    "no_byte": lambda good: (End.CLOSE,),
    "until_close": _until_close,
    "http_1_0": lambda good: (good.replace(b"HTTP/1.1", b"HTTP/1.0", 1), End.CLOSE),
    "said_that_it_closes": lambda good: (_with(good, "Connection: close"), End.CLOSE),
    "closes_though_kept": lambda good: (good, End.CLOSE),
    "resets_though_kept": lambda good: (good, 0.05, End.RESET),
    "byte_by_byte": lambda good: chain.from_iterable(
        (good[n : n + 1], 0.0005) for n in range(len(good))
    ),
    "1xx_first": lambda good: (head(status="100 Continue") + _HINTS, 0.005, _HINTS + good),
    "too_many_1xx": lambda good: (*70 * [_HINTS], good),
    "a_101": lambda good: (
        _with(head("Upgrade: x", status="101 Switching"), "Connection: upgrade"),
    ),
}

#: Seconds for the kinds after which the engine waits until its timeout, for each page in turn. Two
#: pages have these: one that changed, and one that did not.
_TIMEOUTS = {"a_101": 6}


def _length(good: bytes) -> int:
    return len(good.partition(b"\r\n\r\n")[2])


@pytest.mark.long(but=14)
@pytest.mark.parametrize("kind", WRONG)
def test_an_answer_that_is_wrong_ends_as_in_the_engine(kind: str, roads: Roads):
    """Pages that changed, and some that did not: same outcomes, texts, validators and statuses."""
    for path in ("/3", "/5") if kind in _TIMEOUTS else ("/3", "/5", "/11", "/20"):
        roads.site.scripts[path] = WRONG[kind]
    left = []
    seconds = _TIMEOUTS.get(kind, _SETTINGS["DOWNLOAD_TIMEOUT"])
    for name, lane in (("lane", "auto"), ("engine", "off")):
        crawl = roads.copy(name)
        counts = again(
            crawl, roads.site, REVALIDATION_LANE=lane, RETRY_TIMES=0, DOWNLOAD_TIMEOUT=seconds
        )
        left.append(facts(crawl))
        if lane == "auto":
            # All its 304s may have come on connections that a wrong answer ended.
            assert counts["lane/not_modified"] + counts["lane/withdrawn"] > 0
            assert counts["lane/fallbacks"] + counts["lane/handed_over"] > 0

    assert not list(differences(*left))
    assert left[0]["records"][roads.site.url("/29")][5] == 304


# The ones that the lane believed


@pytest.mark.long
def test_three_answers_too_many_swap_no_pages(crawl: Crawl):
    """All pages changed; each text and ETag belongs to its own page."""
    with RawSite() as site:
        crawl(site.url())
        site.edit(*site.paths)
        for path in ("/4", "/11", "/17"):
            stray = _stray(site, path)
            site.once[path] = lambda good, stray=stray: (good, 0.003, stray)

        counts = again(crawl, site)

        assert wrong(crawl, site) == []
        assert Counter(crawl.outcomes().values()) == {"modified": 30, "unchanged": 1}
        assert counts["lane/strays"] == 3


def test_one_answer_too_many_hides_no_edit_where_pages_share_a_date(crawl: Crawl):
    """Without ETags a 304 says nothing of the page that it is about."""
    with RawSite(etags=False) as site:
        crawl(site.url())
        site.edit("/20", "/21", "/28")
        site.once["/5"] = lambda good: (good, 0.003, good)

        again(crawl, site)

        assert wrong(crawl, site) == []
        assert Counter(crawl.outcomes().values()) == {"modified": 3, "unchanged": 28}


def test_a_host_that_sends_too_much_twice_gets_one_request_a_connection(crawl: Crawl):
    with RawSite(60) as site:
        crawl(site.url())
        site.edit("/40", "/41")
        site.log.clear()
        site.used.clear()
        for path in ("/5", "/11"):
            site.once[path] = lambda good: (good + site.answer_of("/7"),)

        counts = again(crawl, site)

        assert wrong(crawl, site) == []
        assert counts["lane/strays"] == 2
        alone = [path for path, headers in site.log if headers.get("connection") == "close"]
        assert len(alone) > 30
        assert counts["lane/not_modified"] > 30
        closing = [number for number, requests in site.used.items() if requests == 1]
        assert len(closing) >= len(alone)


@pytest.mark.parametrize("more", [after(_stray), after(0.02, _stray)], ids=["at once", "later"])
def test_the_engine_gives_such_a_host_one_request_a_connection_too(crawl: Crawl, more: Kind):
    with RawSite(60) as site:
        crawl(site.url())
        site.edit("/40", "/41")
        site.log.clear()
        for path in ("/5", "/6", "/7", "/8"):
            site.once[path] = more(site, path)

        again(crawl, site, REVALIDATION_LANE="off", DOWNLOAD_DELAY="0.03")

        alone = [path for path, headers in site.log if headers.get("connection") == "close"]
        assert len(alone) > 30
        assert not {"/", "/robots.txt", "/0"} & {*alone}


@pytest.mark.parametrize("late", [0.0, 0.003, 0.01])
def test_a_host_that_always_sends_too_much_swaps_no_pages(crawl: Crawl, late: float):
    """What the lane withdraws is asked on connections that are used for nothing else."""
    with RawSite(40) as site:

        def trial(number: int) -> list[str]:
            site.restore()
            again(crawl, site, REVALIDATION_LANE="off")
            site.edit(*_EDITED)
            for path in site.paths:
                site.scripts[path] = after(late, _stray)(site, path)
            site.slowest = 0.0
            counts = again(crawl, site)
            assert counts["lane/strays"] > 2
            outcomes = Counter(crawl.outcomes().values())
            right = outcomes == {"modified": 5, "unchanged": 36}
            return wrong(crawl, site) + ([] if right else [str(outcomes)])

        assert wrong_in_time(site, trial) == []


@pytest.mark.covers("RD-04")
def test_an_etag_is_sent_back_byte_for_byte(crawl: Crawl):
    """RD-04: Latin-1 is how bytes beyond ASCII are read and sent."""

    class Accents(RawSite):
        def etag(self, path: str) -> str:
            return f'"caf\xe9\xff{super().etag(path)[1:]}'

    with Accents(5) as site:
        crawl(site.url())
        site.log.clear()

        counts = again(crawl, site)

        assert counts["lane/not_modified"] == 5
        assert {
            headers.get("if-none-match") for path, headers in site.log if path in site.paths
        } == {site.etag(path) for path in site.paths}


def test_1xx_answers_without_end_are_given_up_as_by_the_engine(crawl: Crawl):
    with RawSite(5) as site:
        crawl(site.url())
        site.sent = 0
        site.scripts["/3"] = lambda good: chain.from_iterable(repeat((_HINTS, 0.001)))
        began = time.monotonic()

        again(crawl, site, RETRY_TIMES=0, DOWNLOAD_TIMEOUT=60)

        assert site.sent < 2_000_000
        assert time.monotonic() - began < 60
        [record] = [page for page in crawl.records() if page["url"] == site.url("/3")]
        assert record["httpStatusCode"] == 1005

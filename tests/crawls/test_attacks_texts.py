"""Attacks by text that is taken for something else: header lines, formulas, markup, queries."""

import csv
import io

import pytest

from smartcrawl.rules.http import http_conditional_headers, http_validators_kept
from tests.crawls.commands import Crawl
from tests.hostile.kinds import KEEP, NEW, Ask, Kind, Script, page, whole
from tests.hostile_server import HostileServer
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=3)

_QUICK: dict[str, object] = {"RETRY_TIMES": 0, "LOG_LEVEL": "WARNING"}


def etag(value: bytes) -> object:
    """A page with this ETag, which it does not honour."""

    def answer(ask: Ask) -> Script:
        return whole(page(ask), b"ETag: " + value), KEEP

    return answer


#: ETags that would begin another header if they were sent back as they came.
_ETAGS = {
    "folded": b'"a\r\n X-Split: 1"',
    "folded_tab": b'"a"\r\n\tX-Split: 1',
    "cr": b'"a\rX-Split: 1"',
}


def test_no_value_that_comes_back_begins_another_header(crawl: Crawl):
    """ATT-19: an ETag of several lines is one line when it is sent back."""
    kinds = tuple(Kind("etag", name, "", etag(value), NEW) for name, value in _ETAGS.items())
    with HostileServer(kinds) as server:
        for number, word in ((1, "new"), (2, "unchanged")):
            server.round = number
            crawl(server.url(), settings=_QUICK)
            words = {name: crawl.outcomes()[f"/etag/{name}"] for name in _ETAGS}
            assert words == dict.fromkeys(_ETAGS, word)

        for name in _ETAGS:
            asked = [request for request in server.log if request.path == f"/etag/{name}"]
            assert len(asked) in (2, 3)  # the lane does not read such an answer: the engine asks
            for request in asked[1:]:
                assert "x-split" not in request.headers
                assert request.headers["if-none-match"].startswith('"a')
                assert not set("\r\n") & set(request.headers["if-none-match"])


@pytest.mark.parametrize("char", ["\0", "\x1b", "\x7f"])
def test_no_validator_with_control_characters_is_sent_back(char: str):
    """ATT-19: RFC 9110, section 5.5; servers answer 400, and the page would count as failing."""
    kept = http_validators_kept(f'"a{char}b"', f"Sun, 09 Sep 2001{char}01:46:40 GMT", 10**9)

    assert not any(
        char in value for value in http_conditional_headers(*kept, trusted=True).values()
    )


def test_no_setting_or_argument_begins_another_header(site: Site, crawl: Crawl):
    """ATT-19: a user agent, and an address, of several lines."""
    site.pages |= {"/": html("Home", "/a"), "/a": html("A")}
    agent = "crawler/1.0\r\nX-Split: 1\n\nGET /never HTTP/1.1"

    crawl(f"{site.url('/')}?\r\nX-Split:\t1", settings=_QUICK | {"USER_AGENT": agent}, expect=None)

    assert site.count("/?X-Split:1") == 1
    assert site.count("/a") == 1
    assert site.count("/never") == 0
    for request in site.log:
        assert "x-split" not in request.headers
        assert request.method == "GET"


#: What a spreadsheet would run, or read as something else.
_FORMULAS = [
    "=HYPERLINK(1)", "+1", "-1+1", "@SUM(1)", "'=1", '=cmd|" /C calc"!A0', "=1,2", '"=1"', "a=1",
]  # fmt: skip


def test_a_table_for_spreadsheets_holds_no_formula_and_json_holds_what_was_said(
    site: Site, crawl: Crawl
):
    """ATT-21: a quote in front in CSV, and nothing but what was received in JSON lines."""
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(len(_FORMULAS))))
    for n, formula in enumerate(_FORMULAS):
        site.pages[f"/{n}"] = Page(html(f"Page {n}"), etag=formula)

    crawl(site.url("/"), settings=_QUICK)

    table = csv.DictReader(io.StringIO(crawl._ask("registry", "--format", "csv")))
    shown = {row["url"]: row["httpEtag"] for row in table}
    stored = {record["url"]: record["httpEtag"] for record in crawl.records()}
    for n, formula in enumerate(_FORMULAS):
        url = site.url(f"/{n}")
        assert stored[url] == formula
        assert shown[url] == (f"'{formula}" if formula[0] in "=+-@" else formula)


def test_markup_of_a_page_is_text_to_those_who_search(site: Site, crawl: Crawl):
    """ATT-20, ATT-22: neither markup of the terminal nor escapes nor another line."""
    title = "[bold red]owned[/] [link=http://evil.example]x[/link] <img src=x onerror=alert(1)>"
    text = "needle </mark><script>alert(1)</script> [blink]x[/blink] \x1b[2J \u202e end"
    site.pages["/"] = html(title, text=text)

    crawl(site.url("/"), settings=_QUICK)

    shown = crawl._ask("search", "needle")
    assert f"1. {title}" in shown
    assert "</mark><script>alert(1)</script> [blink]x[/blink]" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown.splitlines()) == 3
    [hit] = crawl.search("needle")
    assert hit["title"] == title


def test_a_record_is_one_line_and_gives_no_orders(site: Site, crawl: Crawl):
    """ATT-20: also in JSON lines, which people read in a terminal, too."""
    site.pages["/"] = Page(html("Home"), etag='"\x85 \x9b2J \x7f \u2028 \u202e"')
    crawl(site.url("/"), settings=_QUICK)

    shown = crawl._ask("registry", "--format", "jsonl")

    assert len(shown.splitlines()) == 1
    assert not set("\x7f\x85\x9b\u2028\u202e") & set(shown)


#: What FTS5 reads as syntax, and what of it is found; a word after - is excluded.
_QUERIES = {
    '"': False, '"""': False, "*": False, "NEAR(": False, "NEAR(lamp words, 1)": True,
    "title:lamp": False, "{title text}: lamp": True, "-lamp": False, "^lamp": True, "lamp*": True,
    "lamp AND": True, "NOT lamp": True, "lamp) OR (lamp": True, "';--": False,
    "lamp'; DROP TABLE chunk;--": True, "lamp\\": True, "%": False, "()": False,
}  # fmt: skip


def test_no_query_is_syntax_of_the_index(site: Site, crawl: Crawl):
    """ATT-26: words are searched, whatever stands around them."""
    site.pages["/"] = html("Home", text="lamp words")
    crawl(site.url("/"), settings=_QUICK)

    for query, found in _QUERIES.items():
        assert bool(crawl.search(query, "--")) is found, query
    long = " ".join(f"word{n}" for n in range(2_000))
    assert crawl.hits(f"lamp {long}") == ["/"]
    assert len(crawl.texts()) == 1


@pytest.mark.embedded  # of Elasticsearch the first 32 words count
def test_every_word_of_a_long_query_counts(site: Site, crawl: Crawl):
    """ATT-26."""
    site.pages["/"] = html("Home", text="lamp words")
    crawl(site.url("/"), settings=_QUICK)

    assert crawl.hits(" ".join(f"word{n}" for n in range(2_000)) + " lamp") == ["/"]


def test_the_name_of_a_source_is_no_path_and_no_line(crawl: Crawl):
    """ATT-19: it is written into messages, tables and commands."""
    names = ("../../x", "a b", "a/b", "a\nb", "a\0b", "")
    tables = (f'[sources.{_quoted(name)}]\nseeds = ["http://a.example/"]\n' for name in names)
    crawl.declare("".join(tables))

    told = crawl.run("crawl", "site", expect=1)

    assert told.err.count("a name takes letters, digits, '_', '.' and '-'") == len(names)
    assert not crawl.registry.exists()


def _quoted(name: str) -> str:
    return '"' + "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in name) + '"'

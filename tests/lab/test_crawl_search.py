"""The search command: what it says about misspelt words, several sources and odd characters."""

import json
import re

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html


@pytest.fixture
def two_sources(site: Site, crawl: Crawl) -> Site:
    """A page that two sources have, and another one that only one has."""
    site.pages["/"] = html("Lanterns", "/only", text="a lantern\x7f for the harbour")
    site.pages["/only"] = html("Only", text="a lamp for the office")
    crawl.declare(
        f"[sources.all]\nkind = 'site'\nseeds = ['{site.url('/')}']\n"
        f"[sources.some]\nkind = 'site'\nseeds = ['{site.url('/')}']\n"
        "excluded_patterns = ['/only']\n"
    )
    for source in ("all", "some"):
        crawl(source=source)
    return site


def test_search_names_the_sources_of_each_page(two_sources: Site, crawl: Crawl):
    (hit,) = crawl.search("lantern")
    table = crawl.run("search", "lantern").out
    (only,) = crawl.search("office")

    assert (hit["source"], hit["sources"]) == ("all", ["all", "some"])
    assert f"{two_sources.url('/')}  all, some\n" in table
    assert only["sources"] == ["all"]
    assert crawl.search("lantern in:some")[0]["sources"] == ["some"]


def test_search_says_which_word_was_meant(two_sources: Site, crawl: Crawl):
    shown = crawl.run("search", "lantren harbour")
    as_json = crawl.run("search", "--format", "json", "lantren harbour")
    right = crawl.run("search", "lantern harbour")

    assert shown.err == "did you mean 'lantern harbour'? Its pages are shown.\n"
    assert shown.out == right.out
    assert (as_json.err, right.err) == (shown.err, "")
    assert [hit["url"] for hit in json.loads(as_json.out)] == [two_sources.url("/")]


@pytest.mark.usefixtures("two_sources")
def test_search_says_that_pages_are_shown_only_where_they_are(crawl: Crawl):
    nothing = crawl.run("search", "--offset", "9", "lantren harbour")

    assert nothing.out == ""
    assert "did you mean 'lantern harbour'?\nnothing found for" in nothing.err


@pytest.mark.usefixtures("two_sources")
@pytest.mark.parametrize("sign", ["", "-"])
def test_search_refuses_a_source_in_the_query_that_does_not_exist(crawl: Crawl, sign: str):
    refused = crawl.run("search", "--", f"{sign}in:nope lantern", expect=1)

    assert refused.err == "search: no source is called 'nope'; known: all, some\n"
    assert crawl.search("office -in:all") == []


def test_a_hit_whose_visit_failed_is_marked_and_only_a_lost_one_is_called_lost(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/lost", "/away", text="home")
    site.pages["/lost"] = html("Lost", text="a lantern is lost")
    site.pages["/away"] = html("Away", text="a lantern is away")
    crawl(site.url("/"))
    site.pages["/lost"], site.pages["/away"] = Page("", status=404), Page("", status=503)
    crawl(site.url("/"), settings={"RETRY_TIMES": 0}, expect=None)

    shown = crawl.run("search", "lantern").out
    lost = crawl.run("registry", "--outcome", "lost", "--format", "jsonl").out.splitlines()
    help_texts = {
        name: " ".join(crawl.run(name, "--help").out.split()) for name in ("export", "registry")
    }

    assert {hit["lost"] for hit in crawl.search("lantern")} == {True}
    assert shown.count(" (its last visit failed)\n") == 2
    assert "lost:" not in shown
    assert [json.loads(line)["url"] for line in lost] == [site.url("/lost")]
    assert "other failures do not make a page lost" in help_texts["export"]
    assert "a lost page whose next visit fails otherwise counts as failed" in help_texts["registry"]


def test_a_bare_host_in_a_query_means_the_sources_of_all_its_ports(crawl: LabCrawl):
    crawl.web.sites[:] = [site := LabSite("127.0.0.1:8000")]
    site.pages["/"] = html("Lantern", text="a lantern for the harbour")
    crawl(site.url("/"))

    urls = [hit["url"] for hit in crawl.search("lantern in:127.0.0.1")]

    assert urls == [site.url("/")]
    assert crawl.search('lantern -in:"127.0.0.1"') == []


@pytest.mark.usefixtures("two_sources")
def test_json_of_search_has_no_raw_control_characters(crawl: Crawl):
    out = crawl.run("search", "--format", "json", "lantern").out

    assert re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", out) == []
    assert json.loads(out)


@pytest.mark.covers("M-47")
def test_search_shows_the_chunks_of_each_page(site: Site, crawl: Crawl):
    part = "<h2>{}</h2><p>{}</p>"
    texts = [("Oil", "a lantern takes oil [red]"), ("Glass", "no light without glass"),
             ("Wick", "the wick of a lantern\x1b[2J, with other words")]  # fmt: skip
    parts = "".join(part.format(*one) for one in texts)
    site.pages["/"] = html("Lamps").replace("<ul></ul>", parts)
    crawl(site.url("/"))

    (hit,) = crawl.search("lantern")
    shown = crawl.run("search", "--chunks", "lantern").out
    plain = crawl.run("search", "lantern").out

    assert hit["chunks"] == [
        {
            "number": 1,
            "path": "Lamps > Oil",
            "highlight": "a <em>lantern</em> takes oil [red]",
        },
        {
            "number": 3,
            "path": "Lamps > Wick",
            "highlight": "the wick of a <em>lantern</em>\x1b[2J, with other words",
        },
    ]
    assert (hit["headings"], hit["snippet"]) == ("Lamps > Oil", hit["chunks"][0]["highlight"])
    assert shown == (
        f"1. Lamps\n   {site.url('/')}\n"
        "   chunk 1  Lamps > Oil\n     a lantern takes oil [red]\n"
        "   chunk 3  Lamps > Wick\n     the wick of a lantern\\x1b[2J, with other words\n"
    )
    assert plain == f"1. Lamps\n   {site.url('/')}\n   a lantern takes oil [red]\n"

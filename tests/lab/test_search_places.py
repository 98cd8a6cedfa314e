"""Hits lead to the section, name or page that answers."""

import json

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site

LONG = "a sentence about whales that is repeated until it is long enough to count. "
FUNCTIONS = """<title>Functions</title><main>
<section id="built-in"><h1>Functions</h1><dl>
<dt id="oct">oct(x)</dt><dd>Shows a number, an open question.</dd>
<dt id="open">open(file)</dt><dd>Gives a zebra.</dd></dl></section>
<section id="größe"><h2>Sizes</h2><p>A giraffe is large.</p></section>
<section id="two words"><h2>Words</h2><p>A walrus.</p></section></main>"""


def links(crawl: Crawl, query: str) -> list[str]:
    return [chunk.get("link", "") for hit in crawl.search(query) for chunk in hit["chunks"]]


def test_hits_lead_to_the_place_that_answers(site: Site, crawl: Crawl):
    site.pages["/"] = Page(FUNCTIONS)
    crawl(site.url("/"))
    url = site.url("/")

    assert links(crawl, "open") == [f"{url}#open"]
    assert links(crawl, "zebra") == [f"{url}#open"]
    assert links(crawl, "number") == [f"{url}#oct"]
    assert links(crawl, "giraffe") == [f"{url}#gr%C3%B6%C3%9Fe"]
    assert links(crawl, "walrus") == [f"{url}#built-in"]
    assert sorted(links(crawl, "zebra giraffe")) == [f"{url}#gr%C3%B6%C3%9Fe", f"{url}#open"]
    assert f"{url}#open\n" in crawl.run("search", "open").out
    assert "chunk 0, #open" in crawl.run("search", "--chunks", "zebra").out
    ((name,),) = crawl.rows("SELECT name FROM source")
    written = crawl.run(
        "export", "--source", name, "--format", "jsonl", "--chunks", "--output", "-"
    )
    rows = [json.loads(line) for line in written.out.splitlines()]
    assert [(row["section"], row["link"]) for row in rows] == [
        ("built-in", f"{url}#built-in"), ("größe", f"{url}#gr%C3%B6%C3%9Fe"),
        ("built-in", f"{url}#built-in"),
    ]  # fmt: skip
    rows = crawl.rows("SELECT metadata FROM documents ORDER BY sort_order")
    assert [json.loads(one)["section"] for (one,) in rows] == ["built-in", "größe", "built-in"]


def test_another_id_is_no_change_and_moves_the_link(site: Site, crawl: Crawl):
    site.pages["/"] = Page(f'<title>A</title><h1 id="one">A</h1><p>{LONG * 5}</p>')
    crawl(site.url("/"))
    changed = "SELECT changed_run FROM record"
    before = crawl.rows(changed)
    site.pages["/"] = Page(f'<title>A</title><h1 id="two">A</h1><p>{LONG * 5}</p>')

    crawl(site.url("/"))

    assert links(crawl, "whales") == [site.url("/#two")]
    assert crawl.rows(changed) == before


def test_pages_of_an_older_version_lead_to_their_places_at_once(site: Site, crawl: Crawl):
    site.pages["/"] = Page(FUNCTIONS)
    crawl(site.url("/"))
    crawl.rows("UPDATE chunk SET places = NULL")

    assert links(crawl, "zebra") == [site.url("/#open")]

"""Parts of a host, crawled by the real command: the first run by the engine, the next by the lane.

All other stories of them are in tests/lab/test_stories_extent.py.
"""

import tomllib

import pytest

from tests.crawls.commands import Crawl, Result
from tests.crawls.crew import Crew
from tests.site_server import Page, Site, html


@pytest.mark.long
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_an_address_with_a_path_brings_its_folder_alone(site: Site, crawl: Crawl, lane: str):
    """Its robots.txt names a sitemap of the whole host, and arrives before the seed."""
    crawl.environment |= {"REVALIDATION_LANE": lane, "TRUST_SAMPLE_RATIO": "0"}
    paths = ("/", "/docs/", "/docs/a", "/docs/b", "/blog/", "/blog/one")
    for path in paths:
        site.pages[path] = html(path, *paths)
    urls = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in (*paths, "/docs/c"))
    site.pages["/docs/c"] = html("Only in the sitemap")
    site.pages["/sitemap.xml"] = Page(
        body=f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>',
        content_type="application/xml",
    )
    site.pages["/robots.txt"] = Page(
        body=f"Sitemap: {site.url('/sitemap.xml')}\n", content_type="text/plain"
    )
    site.pages["/docs"] = Page(status=301, headers={"Location": "/docs/"})
    docs = {"/docs/", "/docs/a", "/docs/b", "/docs/c"}

    first = crawl(site.url("/docs"))

    assert f"This is all below {site.url('/docs/')}. For the whole host:" in first.out
    assert "scope=host" in first.out
    assert f"INFO: crawling all below {site.url('/docs/')}\n" in first.err
    for start in ("/docs", "/docs/"):
        asked = {request.path for request in site.log}
        assert asked - {"/docs", "/robots.txt", "/sitemap.xml"} == docs
        site.clear()
        again = crawl(site.url(start))
        assert "For the whole host" not in again.out
    pages = {path: page["lastOutcome"] for path, page in crawl.pages().items()}
    assert pages.pop("/sitemap.xml") == "excluded", "as ever, for it is no page"
    assert pages == dict.fromkeys(docs, "unchanged")

    site.clear()
    crawl(site.url("/blog/"))
    assert {request.path for request in site.log} >= {"/blog/", "/blog/one"}
    assert not {request.path for request in site.log} & docs
    refused = crawl(site.url("/"), expect=1)
    assert "would share pages with the source" in refused.err


def test_what_was_chosen_is_saved_as_a_declared_source(site: Site, crawl: Crawl):
    """Its pages stay what they are: nothing is new, nothing is excluded."""
    for path in ("/docs", "/docs/a", "/docs/print", "/blog"):
        site.pages[path] = html(path, "/docs", "/docs/a", "/docs/print", "/blog")
    url = site.url("/docs")
    saved = crawl.run(
        "crawl", "site", "-a", f"url={url}", "-a", "exclude=print", "-a", "depth=3",
        "-a", "header=X-Team: docs", "--save", "manual",
    )  # fmt: skip
    assert "is called manual now, and declared in" in saved.err
    [[name, declared]] = crawl.rows("SELECT name, declared FROM source")
    assert (name, bool(declared)) == ("manual", True)
    [file] = crawl.folder.rglob("smartcrawl.toml")
    assert tomllib.loads(file.read_text("utf-8"))["sources"] == {
        "manual": {
            "seeds": [url],
            "scope": "below",
            "max_depth": 3,
            "excluded_patterns": ["print"],
            "headers": {"X-Team": "docs"},
        }
    }
    site.clear()
    again = crawl(source="manual")
    assert "2  unchanged\n2 requests, 2 of them conditional, 2 answered 304" in again.out
    assert {request.path for request in site.log} - {"/robots.txt"} == {"/docs", "/docs/a"}
    refused = crawl.run(
        "crawl", "site", "-a", f"url={site.url('/blog')}", "--save", "manual", expect=1
    )
    assert "choose another name" in refused.err


def look(crawl: Crawl, url: str, *words: str, expect: int = 0) -> Result:
    """Look at an address, and find that nothing was stored."""
    before = {path: path.stat().st_mtime_ns for path in crawl.folder.rglob("*.db")}
    result = crawl.run("crawl", "site", "-a", f"url={url}", *words, "--dry-run", expect=expect)
    assert {path: path.stat().st_mtime_ns for path in crawl.folder.rglob("*.db")} == before
    return result


def test_a_dry_run_asks_robots_txt_and_the_address_alone(site: Site, crawl: Crawl):
    links = ("/docs/", "/docs/a", "/docs/b", "/blog")
    for path in links:
        site.pages[path] = html(path, *links)
    site.pages["/old"] = Page(status=301, headers={"Location": "/docs/"})
    site.pages["/robots.txt"] = Page(
        body=f"Sitemap: {site.url('/map.xml')}\nUser-agent: *\nDisallow: /blog\n",
        content_type="text/plain",
    )
    told = look(crawl, site.url("/old")).out
    assert [request.path for request in site.log] == ["/robots.txt", "/old", "/docs/"]
    assert "/robots.txt: status 200, names 1 sitemap" in told
    assert f"{site.url('/old')}: status 301, redirects to {site.url('/docs/')}" in told
    assert f"{site.url('/docs/')}: status 200, 3 links" in told
    assert f"all below {site.url('/docs/')}. 2 of the 3 links of the page lead into it" in told
    assert f"To crawl it:  scrapy crawl site -a url={site.url('/old')}" in told
    chosen = look(crawl, site.url("/docs/"), "-a", "scope=host", "-a", "exclude=/b").out
    assert "the whole host 127.0.0.1:" in chosen
    assert "1 of the 3 links of the page lead into it" in chosen
    assert "-a scope=host -a exclude=/b" in chosen
    assert "/missing: status 404" in look(crawl, site.url("/missing"), expect=3).out
    site.clear()
    assert "robots.txt" in look(crawl, site.url("/blog"), expect=3).out
    assert [request.path for request in site.log] == ["/robots.txt"]

    crawl(site.url("/docs/"))
    site.clear()
    refused = look(crawl, site.url("/"), expect=1)
    assert "would share pages with the source" in refused.err
    assert site.log == []
    said = crawl.run("crawl", "site", "--dry-run", expect=1).err
    assert "--dry-run looks at one address of the web" in said


@pytest.mark.long
def test_workers_that_begin_together_take_one_decision(crew: Crew, site: Site):
    """One of them gets the seed; none follows a link, or a sitemap, out of its folder."""
    paths = [f"/docs/{n}" for n in range(30)]
    others = [f"/blog/{n}" for n in range(30)]
    for path in ("/docs/", *paths, *others):
        site.pages[path] = html(path, *paths, *others)
    site.pages["/docs/"] = Page(html("Docs", *paths, *others), delay=1)
    urls = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in others)
    site.pages["/sitemap.xml"] = Page(
        body=f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>',
        content_type="application/xml",
    )
    site.pages["/robots.txt"] = Page(
        body=f"Sitemap: {site.url('/sitemap.xml')}\n", content_type="text/plain"
    )
    for _ in range(2):
        site.clear()
        crew.end(*crew.begin(site.url("/docs/"), 3))
        asked = {request.path for request in site.log} - {"/robots.txt", "/sitemap.xml"}
        assert asked == {"/docs/", *paths}
    assert crew.crawl.rows("SELECT scope, start FROM source") == [("below", site.url("/docs/"))]

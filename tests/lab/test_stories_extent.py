"""Stories of addresses that stand for a part of their host."""

import json

import pytest

from tests.lab.lab import Lab, Page, page
from tests.lab.lab_crawl import LabCrawl, Ran
from tests.lab.lab_site import LabSite

pytestmark = pytest.mark.sqlite


def crawled(lab: Lab, path: str, **arguments: object) -> Ran:
    """Crawl an address of the site."""
    return lab.run(url=lab.site.url(path), **arguments)


def asked(lab: Lab) -> set[str]:
    """The paths that the last run asked for."""
    return {request.path for request in lab.log} - {"/robots.txt"}


def part(lab: Lab, name: str | None = None) -> list[tuple[str | None, str | None]]:
    """Scope and path of the start of each source, or of one."""
    rows = lab.rows("SELECT name, scope, start FROM source ORDER BY no")
    host = lab.site.url("")
    return [
        (scope, start and start.removeprefix(host))
        for found, scope, start in rows
        if name in (None, found)
    ]


def build(lab: Lab) -> None:
    """A host with a manual, a blog and a guide, each of which leads to the others."""
    everywhere = ("/", "/docs/", "/blog/", "/guide/intro.html")
    lab.pages["/"] = page("Home", *everywhere)
    lab.pages["/docs/"] = page("Docs", "/docs/a", "/docs2/", *everywhere)
    lab.pages["/docs/a"] = page("A", "/docs/", "/docs", "/blog/one")
    lab.pages["/docs2/"] = page("Older docs")
    lab.pages["/blog/"] = page("Blog", "/blog/one", *everywhere)
    lab.pages["/blog/one"] = page("One", "/docs/a")
    lab.pages["/guide/intro.html"] = page("Intro", "/guide/next.html", "/docs/", "/guidelines")
    lab.pages["/guide/next.html"] = page("Next", "/")
    lab.pages["/guidelines"] = page("Guidelines")


@pytest.mark.parametrize(
    ("start", "seen", "decided"),
    [
        ("/docs/", {"/docs/", "/docs/a"}, ("below", "/docs/")),
        ("/guide/intro.html", {"/guide/intro.html", "/guide/next.html"}, ("below", "/guide/")),
        ("/blog/one", {"/blog/one"}, ("below", "/blog/")),
    ],
)
def test_a_new_address_with_a_path_stands_for_its_folder(lab: Lab, start, seen, decided):
    build(lab)
    ran = crawled(lab, start)
    assert (asked(lab), part(lab)) == (seen, [decided])
    below = lab.site.url(decided[1])
    assert f"This is all below {below}. For the whole host:" in ran.out
    assert f" site -a url={lab.site.url(start)} -a scope=host" in ran.out
    lab.after(days=1)
    again = crawled(lab, start)
    assert (asked(lab), part(lab)) == (seen, [decided])
    assert "For the whole host" not in again.out, "it was decided once"
    assert again.removed == 0


def test_a_bare_host_is_whole(lab: Lab):
    build(lab)
    ran = crawled(lab, "/")
    assert asked(lab) == set(lab.pages)
    assert part(lab) == [("host", "/")]
    assert "This is the whole host site.example. With its subdomains, too:" in ran.out
    assert "-a scope=domain" in ran.out


@pytest.mark.parametrize("links", [(), ("/docs/a", "/docs/b")])
def test_a_path_without_a_slash_never_brings_the_whole_host(lab: Lab, links):
    lab.pages["/docs"] = page("Docs", "/", "/other", *links)
    lab.pages |= {path: page(path, "/") for path in ("/", "/other", "/docs/a", "/docs/b")}
    crawled(lab, "/docs")
    assert (asked(lab), part(lab)) == ({"/docs", *links}, [("below", "/docs/")])


def test_a_page_with_pages_below_it_is_a_folder(lab: Lab):
    lab.pages["/manual/intro"] = page("Intro", "/manual/intro/first", "/manual/other")
    lab.pages |= {path: page(path) for path in ("/manual/intro/first", "/manual/other")}
    crawled(lab, "/manual/intro")
    assert asked(lab) == {"/manual/intro", "/manual/intro/first"}
    assert part(lab) == [("below", "/manual/intro/")]


def test_the_redirects_of_the_seed_come_first(lab: Lab):
    """And they are followed at each later run, though they are not below their target."""
    lab.pages["/old"] = Page(status=301, headers={"Location": "/older"})
    lab.pages["/older"] = Page(status=301, headers={"Location": "/manual/start.html"})
    lab.pages["/manual/start.html"] = page("Start", "/manual/a", "/x", "/old")
    lab.pages |= {path: page(path) for path in ("/manual/a", "/x")}
    seen = {"/old", "/older", "/manual/start.html", "/manual/a"}
    for _ in range(3):
        ran = crawled(lab, "/old")
        assert (asked(lab), part(lab)) == (seen, [("below", "/manual/")])
        assert (ran.complete, ran.removed) == (True, 0)
        lab.after(days=1)
    ran = crawled(lab, "/manual/start.html")
    assert asked(lab) >= {"/manual/start.html", "/manual/a"}
    assert part(lab) == [("below", "/manual/")], "another start within it changes nothing"


def test_sitemaps_are_offered_after_the_decision(lab: Lab):
    build(lab)
    urls = "".join(f"<url><loc>{lab.site.url(path)}</loc></url>" for path in lab.pages)
    lab.pages["/sitemap.xml"] = Page(
        body=f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>',
        content_type="application/xml",
    )
    lab.pages["/docs/b"] = page("Only in the sitemap")
    lab.pages["/robots.txt"] = Page(
        body=f"Sitemap: {lab.site.url('/sitemap.xml')}\n", content_type="text/plain"
    )
    seen = {"/docs/", "/docs/a", "/sitemap.xml"}
    crawled(lab, "/docs/", sitemap=lab.site.url("/sitemap.xml"))
    assert asked(lab) == seen
    assert part(lab) == [("below", "/docs/")]


def test_a_feed_as_the_seed_is_about_its_host(lab: Lab):
    lab.pages["/blog/feed.xml"] = Page(
        body=f'<rss version="2.0"><channel><title>News</title><item><title>One</title>'
        f"<link>{lab.site.url('/2024/one')}</link></item></channel></rss>",
        content_type="application/rss+xml",
    )
    lab.pages["/2024/one"] = page("One")
    ran = crawled(lab, "/blog/feed.xml")
    assert asked(lab) == {"/blog/feed.xml", "/2024/one"}
    assert part(lab)[0][0] == "host"
    assert "For the part below this address:" in ran.out


def test_a_seed_that_fails_decides_for_its_next_crawl_alone(lab: Lab):
    build(lab)
    crawled(lab, "/dcos/", expect=3)
    assert crawled(lab, "/docs/").complete
    assert part(lab) == [("below", "/docs/")]
    assert lab.rows("SELECT name FROM source") == [("site.example",)]


@pytest.mark.parametrize(
    ("scope", "seen"),
    [
        ("pages", {"/docs/"}),
        ("below", {"/docs/", "/docs/a"}),
        ("host", {"/", "/docs/", "/docs/a", "/docs2/", "/blog/", "/blog/one", "/guidelines",
                  "/guide/intro.html", "/guide/next.html"}),
    ],
)  # fmt: skip
def test_the_scope_is_chosen(lab: Lab, scope, seen):
    build(lab)
    for _ in range(2):
        ran = crawled(lab, "/docs/", scope=scope)
        assert asked(lab) == seen
        assert part(lab)[0][0] == scope
        assert "This is" not in ran.out, "it was chosen"
        lab.after(days=1)
    crawled(lab, "/docs/")
    assert part(lab)[0][0] == scope, "it stays"


def test_single_pages_follow_their_redirects(lab: Lab):
    lab.pages["/a"] = Page(status=301, headers={"Location": "/b"})
    lab.pages["/b"] = page("B", "/c")
    lab.pages["/c"] = page("C")
    for _ in range(2):
        ran = crawled(lab, "/a", scope="pages")
        assert (asked(lab), ran.complete, ran.removed) == ({"/a", "/b"}, True, 0)
        lab.after(days=1)


def test_a_domain_has_its_subdomains(site: LabSite, other: LabSite, crawl: LabCrawl):
    site.host, other.host = "www.docs.example", "api.docs.example"
    site.pages["/"] = page("Home", other.url("/"), "http://other.example/")
    other.pages["/"] = page("API")
    crawl(site.url("/"), scope="domain")
    assert {record["url"] for record in crawl.records()} == {site.url("/"), other.url("/")}


def test_the_next_due_run_keeps_to_the_scope(lab: Lab):
    build(lab)
    crawled(lab, "/docs/")
    lab.after(days=30)
    lab.site.clear()
    lab.crawl.run("due")
    assert asked(lab) == {"/docs/", "/docs/a"}
    assert part(lab) == [("below", "/docs/")]


def test_why_says_what_is_not_below(lab: Lab):
    build(lab)
    crawled(lab, "/docs/")
    said = lab.crawl.run("why", lab.site.url("/blog/"), expect=None)
    assert "it is not below /docs/" in said.out + said.err


def test_two_parts_of_a_host_are_two_sources(lab: Lab):
    build(lab)
    for _ in range(3):
        for start, seen in (
            ("/docs/", {"/docs/", "/docs/a"}),
            ("/blog/", {"/blog/", "/blog/one"}),
        ):
            ran = crawled(lab, start)
            assert (asked(lab), ran.complete, ran.removed) == (seen, True, 0)
        lab.after(days=1)
    names = [name for (name,) in lab.rows("SELECT name FROM source ORDER BY no")]
    assert names[0] == "site.example"
    assert names[1].startswith("site.example-blog-")
    assert part(lab) == [("below", "/docs/"), ("below", "/blog/")]
    outcomes = {row["lastOutcome"] for row in lab.crawl.records()}
    assert "excluded" not in outcomes
    lab.after(days=30)
    lab.site.clear()
    lab.crawl.run("due")
    assert asked(lab) == {"/docs/", "/docs/a", "/blog/", "/blog/one"}


def test_parts_that_overlap_are_refused(lab: Lab):
    build(lab)
    crawled(lab, "/docs/")
    url = lab.site.url
    refused = crawled(lab, "/", expect=1)
    assert asked(lab) == set()
    assert f"{url('/')} with the whole host site.example would share pages" in refused.err
    assert f"scrapy crawl site -a url={url('/docs/')} -a scope=host" in refused.err
    assert "scrapy forget --source site.example" in refused.err
    assert crawled(lab, "/blog/", scope="host", expect=1).result is None
    crawled(lab, "/docs/", scope="host")
    assert part(lab) == [("host", "/docs/")]
    assert len(asked(lab)) > 8


def test_pages_get_out_of_scope_only_when_that_is_accepted(lab: Lab):
    build(lab)
    crawled(lab, "/")
    count = len(lab.pages)
    refused = crawled(lab, "/docs/", scope="below", expect=1)
    assert (asked(lab), part(lab)) == (set(), [("host", "/")])
    out = count - 2
    assert f"puts {out} of the {count} stored pages of site.example out of scope" in refused.err
    assert "-a yes=1" in refused.err
    crawled(lab, "/docs/", scope="below", yes=1)
    assert asked(lab) == {"/docs/", "/docs/a"}
    assert part(lab) == [("below", "/docs/")]
    crawled(lab, "/docs/", scope="host")
    assert part(lab)[0][0] == "host", "more needs no word"


def test_a_source_that_exists_keeps_its_hosts(lab: Lab):
    """Another start of it within its scope is one start more, as ever."""
    build(lab)
    crawled(lab, "/")
    ran = crawled(lab, "/docs/", expect=None)
    assert part(lab) == [("host", "/")]
    assert len(asked(lab)) > 8
    assert "For the whole host" not in ran.out


def test_a_wrong_word_is_refused(lab: Lab):
    refused = crawled(lab, "/docs/", scope="hots", expect=1)
    assert "expected pages, host, domain, below, did you mean host?" in refused.err


def test_chosen_patterns_and_depth_belong_to_the_source(lab: Lab):
    """The start is asked whatever the patterns say, and later runs need no word."""
    build(lab)
    lab.pages["/docs/a"] = page("A", "/docs/deep", "/docs/print")
    lab.pages["/docs/deep"] = page("Deep")
    lab.pages["/docs/print"] = page("Print")
    crawled(lab, "/docs/", include="/docs/a\n/docs/p", exclude="print", depth="1")
    for _ in range(2):
        assert asked(lab) == {"/docs/", "/docs/a"}
        lab.after(days=1)
        crawled(lab, "/docs/")
    [[chosen]] = lab.rows("SELECT chosen FROM source")
    assert json.loads(chosen) == {
        "max_depth": 1,
        "url_patterns": ["/docs/a", "/docs/p"],
        "excluded_patterns": ["print"],
        "ways": [lab.site.url("/docs/")],
    }
    lab.after(days=30)
    lab.site.clear()
    lab.crawl.run("due")
    assert asked(lab) == {"/docs/", "/docs/a"}
    crawled(lab, "/docs/", include="", exclude="", depth="0")
    assert asked(lab) == {"/docs/", "/docs/a", "/docs/deep", "/docs/print"}
    refused = crawled(lab, "/docs/", exclude="deep", expect=1)
    assert "this puts 1 of the 4 stored pages of site.example out of scope" in refused.err
    crawled(lab, "/docs/", exclude="deep", yes=1)
    assert "/docs/deep" not in asked(lab)
    refused = crawled(lab, "/docs/", depth="1", expect=1)
    assert "this puts 1 of the 4" in refused.err, "a page that is too deep is out of scope"


def test_why_and_plan_read_what_was_chosen(lab: Lab):
    build(lab)
    crawled(lab, "/docs/", scope="host", exclude="/blog/")
    said = lab.crawl.run("why", lab.site.url("/blog/"), expect=None)
    assert "one of excluded_patterns matches it" in said.out + said.err
    plan = lab.crawl.run("plan", "--all", expect=None)
    assert "/blog/" not in plan.out


def test_how_the_site_is_asked_belongs_to_the_source(lab: Lab):
    build(lab)
    crawled(lab, "/docs/", delay="0.5", user_agent="docs-bot", header="X-Team: docs\nX-Desk: 7")
    crawled(lab, "/docs/")
    [[chosen]] = lab.rows("SELECT chosen FROM source")
    asks = {"delay": 0.5, "user_agent": "docs-bot", "headers": {"X-Team": "docs", "X-Desk": "7"}}
    assert asks.items() <= json.loads(chosen).items()
    crawled(lab, "/docs/", delay="", header="")
    [[chosen]] = lab.rows("SELECT chosen FROM source")
    assert json.loads(chosen).keys() & asks.keys() == {"user_agent"}
    refused = crawled(lab, "/docs/", header="Authorization: Bearer geheim", expect=1)
    assert "Authorization is for a secret" in refused.err
    assert "geheim" not in refused.err + refused.out


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"include": "("}, "-a include is '('"),
        ({"exclude": "/docs/"}, "-a url outside of the source"),
        ({"depth": "many"}, "-a depth is 'many': expected a whole number, 0 for no limit"),
        ({"delay": "-1"}, "delay is '-1'"),
        ({"header": "X-Team"}, "header is 'X-Team'"),
        ({"yes": "x"}, "yes is 'x'"),
    ],
)
def test_what_cannot_be_chosen_is_refused_before_the_run(lab: Lab, argument, words):
    build(lab)
    refused = crawled(lab, "/docs/", expect=1, **argument)
    assert words in refused.err
    assert asked(lab) == set()


def test_a_declared_source_has_its_keys_in_its_table(lab: Lab):
    lab.crawl.declare(f"[sources.docs]\nseeds = ['{lab.site.url('/docs/')}']\nscope = 'below'\n")
    build(lab)
    lab.source = "docs"
    lab.run()
    assert asked(lab) == {"/docs/", "/docs/a"}
    refused = lab.run(depth="1", expect=1)
    assert "write its key max_depth into its table" in refused.err
    assert "write its key scope into its table" in lab.run(scope="host", expect=1).err


def test_globs_choose_the_files_of_a_folder(lab: Lab, tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("a.md", "b.md", "c.txt"):
        (folder / name).write_text(f"text of {name}")
    crawl = lab.crawl
    stored = "SELECT r.url FROM record r JOIN state s USING (no) WHERE s.standing = 2 ORDER BY 1"

    def names() -> list[str]:
        return [url.rpartition("/")[2] for (url,) in crawl.rows(stored)]

    crawl(spider="files", root=folder, include="*.md", exclude="b*")
    assert names() == ["a.md"]
    crawl(spider="files", root=folder)
    assert names() == ["a.md"], "it stays"
    crawl(spider="files", root=folder, include="", exclude="")
    assert names() == ["a.md", "b.md", "c.txt"]
    refused = crawl(spider="files", root=folder, include="*.md", expect=1)
    assert "this puts 1 of the 3 stored pages" in refused.err
    crawl(spider="files", root=folder, include="*.md", yes=1)
    outcomes = {row["url"].rpartition("/")[2]: row["lastOutcome"] for row in crawl.records()}
    assert outcomes == {"a.md": "unchanged", "b.md": "unchanged", "c.txt": "excluded"}


def test_a_start_that_redirects_into_another_source_is_refused(lab: Lab):
    build(lab)
    crawled(lab, "/docs/")
    lab.pages["/manual/"] = Page(status=301, headers={"Location": "/docs/"})
    refused = crawled(lab, "/manual/", expect=1)
    assert f"all below {lab.site.url('/docs/')} would share pages with the source" in refused.err
    lab.pages["/manual/"] = page("Manual", "/manual/a")
    lab.pages["/manual/a"] = page("A")
    assert crawled(lab, "/manual/").complete
    assert asked(lab) == {"/manual/", "/manual/a"}


@pytest.mark.parametrize("scope", ["pages", "below", "host", None])
def test_a_signature_of_the_start_is_stored_nowhere(lab: Lab, scope):
    """Another signature names the same source."""
    chosen = {} if scope is None else {"scope": scope}
    for signature in ("geheim1", "geheim2"):
        address = f"/files/list.html?sv=2022&se=2030-01-01&sr=b&sp=r&sig={signature}"
        lab.pages[address] = page("List", "/files/a")
        crawled(lab, address, **chosen, expect=None)
    [[start, ways]] = lab.rows("SELECT start, chosen FROM source")
    assert "geheim" not in start + ways
    assert [name for name, content in lab.crawl.written() if b"geheim" in content] == []

"""Pages that lead to another address at once: they are judged as pages that answer 302."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html


def meta(content: str) -> str:
    return f'<meta http-equiv="refresh" content="{content}">'


def stub(target: str, *links: str, text: str = "You are being taken on.") -> str:
    return html("Moved", *links, text=text, head=meta(f"0; url={target}"))


def moved(target: str) -> Page:
    return Page(status=302, redirect=target)


def paths(site: Site) -> list[str]:
    """The pages that were requested since the log was cleared, without robots.txt."""
    found = sorted(request.path for request in site.log if request.path != "/robots.txt")
    site.clear()
    return found


@pytest.mark.covers("R4-37", "M-21")
def test_a_stub_is_followed_and_is_no_hit(site: Site, crawl: Crawl):
    on = "You are being taken on."
    robots = '<meta name="robots" content="noindex,nofollow">'
    no_scripts = f"<noscript>{meta('0; url=/l')}</noscript>"
    stubs = {
        "/meta": stub("/m", "/only-stub-links-here"),
        "/soon": html("Soon", head=meta("1;URL='m'"), text=on),
        "/header": Page(html("By header", text=on), headers={"Refresh": "0; url=/h"}),
        "/noindex": html("No", head=robots + meta("0;url=/n")),
        "/plain": Page(on, content_type="text/plain", headers={"Refresh": "0;/h"}),
        "/away": stub("http://elsewhere.invalid/"),
        "/dead": stub("/missing"),
    }
    kept = {
        "/later": html("Later", head=meta("5; url=/l"), text="kept: it shows for a while"),
        "/reload": html("Reload", head=meta("0"), text="kept: it is read again"),
        "/itself": html("Itself", head=meta("0; url=/itself#part"), text="kept: so is this"),
        "/script": html("Script", head=no_scripts, text="kept: for scripts"),
    }
    for path in ("/m", "/h", "/n", "/l"):
        site.pages[path] = html(f"Target {path}", text=f"the text of {path}")
    site.pages |= stubs | kept
    site.pages["/"] = html("Home", *stubs, *kept)

    crawl(site.url("/"))

    pages = crawl.pages()
    assert "/only-stub-links-here" not in pages
    assert crawl.hits("taken on") == []
    assert set(crawl.hits("kept")) == set(kept)
    outcomes = {path: (pages[path]["lastOutcome"], pages[path]["httpStatusCode"]) for path in stubs}
    assert outcomes == dict.fromkeys(stubs, ("redirected", 302))
    assert {pages[path]["depth"] for path in ("/m", "/h", "/n")} == {1}
    assert pages["/l"]["depth"] == 2
    why = crawl.run("why", site.url("/meta")).out
    assert f"redirected by a refresh to {site.url('/m')}" in why

    site.clear()
    crawl(site.url("/"))

    assert crawl.hits("taken on") == []
    assert set(crawl.outcomes().items()) >= {("/meta", "redirected"), ("/m", "unchanged")}
    assert "/m" in paths(site)


@pytest.mark.covers("U-06", "M-21")
@pytest.mark.parametrize("to", [stub, moved])
def test_stored_pages_that_become_stubs_go_as_those_that_redirect(
    site: Site, crawl: Crawl, to: Callable[[str], Page | str]
):
    """One moves, two share a target, which may be a login page, and two lead to each other."""
    names = ("/moved", "/a", "/b", "/one", "/two", "/kept")
    for path in names:
        site.pages[path] = html(path, text=f"the text of {path}")
    site.pages["/"] = html("Home", *names)
    crawl(site.url("/"))
    site.pages["/moved"] = to("/new")
    site.pages["/new"] = html("New", text="the text of /moved and more")
    site.pages["/gate"] = html("Gate", text="please agree")
    site.pages |= {"/a": to("/gate?a"), "/b": to("/gate?b")}
    site.pages |= {"/one": to("/two"), "/two": to("/one")}

    crawl(site.url("/"))

    outcomes = crawl.outcomes()
    assert {path: outcomes[path] for path in names} == {
        "/moved": "redirected", "/kept": "unchanged",
        **dict.fromkeys(("/a", "/b", "/one", "/two"), "lost"),
    }  # fmt: skip
    assert "/moved" not in crawl.hits('"the text of"')
    assert {"/new", "/a", "/b", "/one", "/two"} < set(crawl.hits('"the text of"'))
    site.clear()
    crawl(site.url("/"))

    assert crawl.outcomes()["/a"] == "lost", "the ETag of the stored page confirms nothing else"
    site.pages["/a"] = html("/a", text="the text of /a")
    crawl(site.url("/"))
    assert crawl.outcomes()["/a"] == "unchanged"


@pytest.mark.parametrize("lane", ["auto", "off"])
def test_a_304_with_a_refresh_leads_on(site: Site, crawl: Crawl, lane: str):
    crawl.environment["REVALIDATION_LANE"] = lane
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = Page(html("A", text="the text of a"))
    site.pages["/b"] = html("B", text="the text of b")
    crawl(site.url("/"))
    site.pages["/a"] = replace(site.pages["/a"], headers={"Refresh": "0; url=/b"})

    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged", "/a": "redirected", "/b": "unchanged"}
    assert crawl.hits("text") == ["/b"]


def test_a_seed_leads_on_and_another_spelling_is_asked_in_the_same_visit(site: Site, crawl: Crawl):
    site.pages["/"] = stub("/latest/")
    others = [f"/other/{n}" for n in range(10)]
    site.pages |= {path: html(path) for path in others}
    site.pages["/latest/"] = html("Home", "/x", "/y", *others)
    site.pages["/x"] = stub("/x/")
    site.pages["/x/"] = html("X", text="the text of x")
    site.pages["/y"], site.pages["/y/"] = stub("/y/"), stub("/y")

    for _ in range(2):
        site.clear()
        crawl(site.url("/"))
        pages = crawl.pages()

        assert crawl.hits("text") == ["/x/"]
        assert pages["/y"]["httpStatusCode"] == 1002
    assert "/x" not in paths(site), "it is asked under the spelling that brought it"

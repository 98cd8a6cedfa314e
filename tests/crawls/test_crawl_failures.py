"""A page that fails keeps what is held of it, and its links stay in force."""

import gzip

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

#: An answer of each kind, with the status that the record shows, its word where content is held,
#: lostCount and goneCount ("What ages" in docs/decisions.md).
HTTP_ERRORS = {
    "404": (Page("gone", status=404), 404, "lost", 1, 1),
    "410": (Page("gone", status=410), 410, "lost", 1, 1),
    "403": (Page("no", status=403), 403, "lost", 1, 0),
    "401": (Page("no", status=401), 401, "lost", 1, 0),
    "451": (Page("no", status=451), 451, "lost", 1, 0),
    "500": (Page(html("Oops", "/never"), status=500), 500, "failed", 0, 0),
    "503": (Page("later", status=503), 503, "failed", 0, 0),
    "429": (Page("slowly", status=429), 429, "failed", 0, 0),
    "408": (Page("too late", status=408), 408, "failed", 0, 0),
    "204": (Page("", status=204), 204, "lost", 1, 0),
    "206": (Page("part", status=206), 206, "lost", 1, 0),
    "nowhere": (Page(status=302), 1003, "lost", 1, 0),
}
NO_ANSWERS = {
    "reset": Page(fault="reset"),
    "hang": Page(fault="hang"),
    "truncate": Page(html("Half", "/never", text="half a page " * 50), fault="truncate"),
    "slow": Page(html("Slow", "/never"), fault="drip", delay=0.5),
    "cutzip": Page(gzip.compress(b"half a page " * 50)[:-9], headers={"Content-Encoding": "gzip"}),
    "big": Page("x" * 300_000),
}
#: Without retries, impatient, with little room for a body.
QUICK = {"RETRY_TIMES": 0, "DOWNLOAD_TIMEOUT": 1, "DOWNLOAD_MAXSIZE": 100_000}


def hubs(site: Site, names: list[str], others: int = 0) -> None:
    """A page for each name, each leading to a child that nothing else leads to."""
    site.pages["/"] = html(
        "Home", *(f"/{name}" for name in names), *(f"/other/{n}" for n in range(others))
    )
    for name in names:
        site.pages[f"/{name}"] = html(name, f"/{name}/child", text=f"content of hub{name}")
        site.pages[f"/{name}/child"] = html(f"Child of {name}", text=f"child of hub{name}")
    for n in range(others):
        site.pages[f"/other/{n}"] = html(f"Other {n}", text=f"filler {n}")


def shows_held(
    crawl: Crawl, expected: dict[str, tuple[str, int, int]], before: dict[str, dict]
) -> None:
    """`expected` has the word, lostCount and goneCount of each page that failed."""
    names, pages = list(expected), crawl.pages()
    held = ("httpEtag", "contentHash", "textHash", "bodyHash", "lastChanged", "lastIndexed")
    for name in names:
        page, child = pages[f"/{name}"], pages[f"/{name}/child"]
        told = (page["lastOutcome"], page["lostCount"], page["goneCount"])
        assert told == expected[name], page
        assert (page["status"], page["effectiveStatus"]) == ("Error", 200)
        assert page["errorMessage"]
        assert page["visitedRun"] == 2
        assert {key: page[key] for key in held} == {key: before[f"/{name}"][key] for key in held}
        assert (child["lastOutcome"], child["reachedRun"]) == ("unchanged", 2), child
        assert child["orphanAge"] == 0
    hits = {hit["url"]: hit for hit in crawl.search("content", "--limit", "100")}
    assert {record["url"] for path, record in pages.items() if path[1:] in names} == set(hits)
    assert all(hit["lost"] for hit in hits.values())
    assert "/never" not in pages
    assert crawl.counts_add_up()


def shows_recovered(crawl: Crawl, site: Site, names: list[str]) -> None:
    pages = crawl.pages()
    for name in names:
        page = pages[f"/{name}"]
        assert (page["status"], page["lastOutcome"]) == ("Indexed", "unchanged"), page
        assert (page["lastStatusCode"], page["errorMessage"]) == (304, None)
        assert (page["lostCount"], page["goneCount"]) == (0, 0)
        assert site.count(f"/{name}") == 1
    assert not any(hit["lost"] for hit in crawl.search("content", "--limit", "100"))


@pytest.mark.covers(
    "R4-01", "R4-02", "R4-04", "R4-05", "R4-27", "R4-38", "R4-43", "R4-45", "RD-05", "RD-09",
    "U-08", "U-10", "U-12", "U-19", "U-20", "R0-05", "M-08",
)  # fmt: skip
def test_a_known_page_that_answers_an_error_stays_held_and_its_links_stay_in_force(
    site: Site, crawl: Crawl
):
    """Trap 2 as well: whoever fails vouches for its links."""
    names = list(HTTP_ERRORS)
    hubs(site, names, others=20)  # so that 500, 503, 429 and nowhere are less than 10 %
    crawl(site.url("/"))
    before = crawl.pages()
    healthy = {name: site.pages[f"/{name}"] for name in names}
    for name, (page, *_) in HTTP_ERRORS.items():
        site.pages[f"/{name}"] = page

    crawl(site.url("/"), settings=QUICK)

    shows_held(crawl, {name: facts[2:] for name, facts in HTTP_ERRORS.items()}, before)
    for name, (_, status, *_) in HTTP_ERRORS.items():
        assert crawl.pages()[f"/{name}"]["httpStatusCode"] == status
    run = crawl.runs()[0]
    assert (run["lost"], run["failed"]) == (8, 4)
    site.pages |= {f"/{name}": page for name, page in healthy.items()}
    site.clear()

    crawl(site.url("/"), settings=QUICK)

    shows_recovered(crawl, site, names)


@pytest.mark.covers("R4-40", "R4-42", "R4-43", "RD-09", "U-13", "U-19")
def test_a_known_page_that_nobody_answers_for_stays_held_and_its_links_stay_in_force(
    site: Site, crawl: Crawl
):
    names = list(NO_ANSWERS)
    hubs(site, names, others=50)  # so that they are less than 10 % of the visits
    crawl(site.url("/"))
    before = crawl.pages()
    healthy = {name: site.pages[f"/{name}"] for name in names}
    site.pages |= {f"/{name}": page for name, page in NO_ANSWERS.items()}

    result = crawl(site.url("/"), settings=QUICK)

    shows_held(crawl, dict.fromkeys(names, ("failed", 0, 0)), before)
    pages = crawl.pages()
    assert all(1100 <= pages[f"/{name}"]["httpStatusCode"] < 1200 for name in names)
    messages = {name: pages[f"/{name}"]["errorMessage"] for name in names}
    assert "DOWNLOAD_TIMEOUT" in messages["hang"]
    assert "DOWNLOAD_TIMEOUT" in messages["slow"]
    assert "DOWNLOAD_MAXSIZE" in messages["big"]
    assert "ended before" in messages["truncate"]
    assert "complete" in result.out
    site.pages |= {f"/{name}": page for name, page in healthy.items()}
    site.clear()

    crawl(site.url("/"), settings=QUICK)

    shows_recovered(crawl, site, names)


@pytest.mark.covers("R4-38", "U-11", "U-01", "R1-38")
def test_a_new_page_that_fails_holds_nothing_and_is_new_when_it_answers(site: Site, crawl: Crawl):
    names = ["404", "500", "403", "nowhere"]
    site.pages["/"] = html("Home", *(f"/{name}" for name in [*names, *NO_ANSWERS]))
    for name in names:
        site.pages[f"/{name}"] = HTTP_ERRORS[name][0]
    site.pages |= {f"/{name}": page for name, page in NO_ANSWERS.items()}

    crawl(site.url("/"), settings=QUICK, expect=3)  # more than 10 % did not answer

    pages = crawl.pages()
    empty = ("httpEtag", "httpLastModified", "contentHash", "textHash", "bodyHash", "lastIndexed")
    for name in [*names, *NO_ANSWERS]:
        page = pages[f"/{name}"]
        assert (page["status"], page["lastOutcome"]) == ("Error", "failed"), page
        assert page["lostCount"] == 0, "what was never held cannot be lost"
        assert [page[key] for key in empty] == [None] * len(empty)
        assert page["effectiveStatus"] != 200
        # A broken kept-alive connection may have been closed before the request: asked once more.
        assert site.count(f"/{name}") <= (2 if name == "reset" else 1)
    [run] = crawl.runs()
    assert not run["complete"]
    assert any("unreachable" in reason for reason in run["reasons"])
    assert "/never" not in pages
    assert crawl.hits("half page oops") == []
    for name in [*names, *NO_ANSWERS]:
        site.pages[f"/{name}"] = html(name, text=f"here is {name}")

    crawl(site.url("/"), settings=QUICK)

    assert {word for path, word in crawl.outcomes().items() if path != "/"} == {"new"}


@pytest.mark.covers("R4-08", "R4-09", "U-17", "RD-07")
def test_an_unreached_page_is_orphaned_stays_searchable_and_ages_in_complete_runs_only(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/a", "/b", "/lonely")
    site.pages["/a"] = html("A")
    site.pages["/b"] = html("B")
    site.pages["/lonely"] = html("Lonely", "/lonely/child", text="nobody visits")
    site.pages["/lonely/child"] = html("Child of lonely", text="nor me")
    crawl(site.url("/"))
    linked = site.pages["/"]
    site.pages["/"] = html("Home", "/a", "/b")

    def age() -> tuple[str, str, int]:
        page = crawl.pages()["/lonely"]
        assert crawl.hits("nobody visits") == ["/lonely"]
        return page["lastOutcome"], page["status"], page["orphanAge"]

    crawl(site.url("/"))
    assert age() == ("orphaned", "Indexed", 1)
    assert crawl.outcomes()["/lonely/child"] == "orphaned"
    crawl(site.url("/"), max_pages=1, expect=3)
    assert age() == ("orphaned", "Indexed", 1)
    crawl(site.url("/"))
    assert age() == ("orphaned", "Indexed", 2)
    assert crawl.runs()[0]["orphaned"] == 2
    site.clear()
    site.pages["/"] = linked

    crawl(site.url("/"))

    assert age() == ("unchanged", "Indexed", 0)
    assert crawl.outcomes()["/lonely/child"] == "unchanged"
    assert site.count("/lonely") == 1
    site.pages["/"] = html("Home", "/a", "/b")

    for complete in (1, 2):
        crawl(site.url("/"))
        assert age() == ("orphaned", "Indexed", complete)
    site.clear()

    result = crawl(site.url("/"))  # the third in a row

    pages = crawl.pages()
    for path in ("/lonely", "/lonely/child"):
        page = pages[path]
        assert (page["lastOutcome"], page["status"]) == ("deleted", "OutOfScope")
        assert (page["contentHash"], page["httpEtag"], page["orphanAge"]) == (None, None, 0)
        assert site.count(path) == 1, "looked at once before it goes"
    assert crawl.hits("nobody visits") == []
    assert (crawl.runs()[0]["deleted"], crawl.runs()[0]["orphaned"]) == (2, 0)
    assert "2 removed" in result.out
    assert crawl.counts_add_up()


@pytest.mark.covers("R1-38", "RD-08", "M-32")
def test_a_passing_failure_is_retried_and_a_definitive_answer_is_not(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/flaky", "/missing", "/known")
    site.pages["/flaky"] = Page(html("Flaky", text="third time lucky"), flaky=2)
    site.pages["/known"] = html("Known")

    crawl(site.url("/"))

    assert crawl.outcomes()["/flaky"] == "new"
    assert site.count("/flaky") == 3
    assert site.count("/missing") == 1
    site.pages["/known"] = Page(html("Known"), flaky=1)
    site.clear()

    crawl(site.url("/"))

    retried = [request for request in site.log if request.path == "/known"]
    assert [request.status for request in retried] == [503, 304]
    assert len({request.headers["if-none-match"] for request in retried}) == 1
    assert crawl.outcomes()["/known"] == "unchanged"


def test_a_compressed_body_that_is_cut_short_is_no_page(site: Site, crawl: Crawl):
    """Half of a page must not replace the whole one, whoever cut it."""
    words = " ".join(f"word{n}" for n in range(3000))
    site.pages["/"] = html("Home", "/cut", *(f"/{n}" for n in range(20)))
    for n in range(20):
        site.pages[f"/{n}"] = html(f"Page {n}")
    site.pages["/cut"] = html("Whole", "/child", text=words)
    site.pages["/child"] = html("Child")
    crawl(site.url("/"))
    whole = gzip.compress(html("Cut", text=words).encode(), mtime=0)
    site.pages["/cut"] = Page(whole[: len(whole) // 2], headers={"Content-Encoding": "gzip"})

    crawl(site.url("/"))

    assert crawl.outcomes()["/cut"] == "failed"
    assert crawl.hits("word2999") == ["/cut"]
    assert crawl.outcomes()["/child"] == "unchanged"


def test_a_seed_that_fails_makes_the_run_incomplete_and_orphans_nobody(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", "/b")
    site.pages["/b"] = html("B")
    crawl(site.url("/"))
    site.pages["/"] = Page("gone", status=404)

    result = crawl(site.url("/"), expect=3)

    assert crawl.outcomes() == {"/": "lost", "/a": "unchanged", "/b": "unchanged"}
    [run, _] = crawl.runs()
    assert not run["complete"]
    assert any(reason.startswith("seed_failed") for reason in run["reasons"])
    assert site.url("/") in result.out

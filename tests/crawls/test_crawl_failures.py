"""A page that nobody answers for keeps what is held of it, and its links stay in force.

Pages that answer an error are told in tests/lab/test_crawl_errors.py.
"""

import gzip

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.held import HTTP_ERRORS, QUICK, hubs, shows_held, shows_recovered
from tests.site_server import Page, Site, html

NO_ANSWERS = {
    "reset": Page(fault="reset"),
    "hang": Page(fault="hang"),
    "truncate": Page(html("Half", "/never", text="half a page " * 50), fault="truncate"),
    "slow": Page(html("Slow", "/never"), fault="drip", delay=0.5),
    "cutzip": Page(gzip.compress(b"half a page " * 50)[:-9], headers={"Content-Encoding": "gzip"}),
    "big": Page("x" * 300_000),
}


@pytest.mark.long
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


@pytest.mark.long
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

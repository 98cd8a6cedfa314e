"""Documents that take long, or cannot be read: they cost one try, and hold up no page."""

from dataclasses import replace

import pytest

from smartcrawl.extract import html as html_reader
from tests.crawls.commands import Crawl
from tests.crawls.workbooks import long, row, workbook
from tests.site_server import Page, Site, html


def fault(crawl: Crawl, path: str) -> tuple[int, str, str]:
    page = crawl.pages()[path]
    return page["httpStatusCode"], page["lastOutcome"], page["errorMessage"]


@pytest.mark.covers("R0-60", "R0-94")
@pytest.mark.parametrize("lane", ["auto", "off"])
def test_workbooks_with_cells_far_apart_cost_what_their_cells_cost(
    site: Site, crawl: Crawl, lane: str
):
    crawl.environment["EXTRACT_CPU_SECONDS"] = "2"  # a grid would take more
    crawl.environment["REVALIDATION_LANE"] = lane
    wide = {f"/wide{n}.xlsx": workbook(row(1, "A1", f"near{n} words")
                                       + row(1_048_576, "XFD1048576", f"far{n} words"))
            for n in range(3)}  # fmt: skip
    broken = {f"/broken{n}.xlsx": workbook(row(1, "A1", "x")
                                           + row(4_294_967_295, "A4294967295", f"off{n}"))
              for n in range(3)}  # fmt: skip
    site.pages |= wide | broken
    site.pages["/"] = html("Home", *wide, *broken, *(f"/page{n}" for n in range(30)))
    site.pages |= {f"/page{n}": html(f"Page {n}", text="plain words") for n in range(30)}

    crawl(site.url("/"))

    assert [crawl.hits(f"far{n}") for n in range(3)] == [[path] for path in wide]
    assert len(crawl.hits('"plain words"')) == 30
    for path in broken:
        status, outcome, message = fault(crawl, path)
        assert (status, outcome) == (1205, "failed")
        assert "and the format has 1,048,576" in message
    site.clear()
    crawl(site.url("/"))
    assert {r.status for r in site.log if r.path in wide} == {304}
    assert {fault(crawl, path)[0] for path in broken} == {1205}


def test_bytes_that_cannot_be_read_are_not_read_again_until_they_change(site: Site, crawl: Crawl):
    broken = workbook(row(4_294_967_295, "A4294967295", "words"))
    site.pages["/a.xlsx"] = broken
    site.pages["/"] = html("Home", "/a.xlsx", "/b.xlsx")
    again = "found before with the same bytes"

    crawl(site.url("/"))
    assert again not in fault(crawl, "/a.xlsx")[2]
    site.pages["/b.xlsx"] = broken  # the same bytes at another address, for the first time
    for _ in range(2):
        crawl(site.url("/"))
        for path in ("/a.xlsx", "/b.xlsx"):
            assert fault(crawl, path)[:2] == (1205, "failed")
            assert again in fault(crawl, path)[2]
    assert again in crawl.run("why", site.url("/a.xlsx")).out

    crawl.rows("UPDATE unreadable SET extraction = extraction - 1")  # another version found it
    crawl(site.url("/"))
    assert any(again not in fault(crawl, path)[2] for path in ("/a.xlsx", "/b.xlsx"))
    crawl(site.url("/"))
    assert again in fault(crawl, "/a.xlsx")[2]

    crawl(site.url("/"), force=1)  # whatever was found before
    assert again not in fault(crawl, "/a.xlsx")[2]
    site.pages["/a.xlsx"] = workbook(row(1, "A1", "mended words"))
    crawl(site.url("/"))
    assert crawl.hits('"mended words"') == ["/a.xlsx"]


@pytest.mark.long
def test_more_memory_than_was_too_little_is_another_try(site: Site, crawl: Crawl):
    body = b"[" + b"[]," * 2_500_000 + b'"late words"]'
    site.pages["/a.json"] = Page(body, content_type="application/json")
    site.pages["/"] = html("Home", "/a.json")
    crawl.environment |= {"EXTRACT_MEMORY_MB": "256", "EXTRACT_SECONDS_PER_HOST": "0"}

    crawl(site.url("/"))
    assert fault(crawl, "/a.json")[0] == 1210
    crawl(site.url("/"))
    assert "found before with the same bytes" in fault(crawl, "/a.json")[2]
    crawl.environment["EXTRACT_MEMORY_MB"] = "2048"
    crawl(site.url("/"))
    assert crawl.hits('"late words"') == ["/a.json"]


@pytest.mark.long
def test_document_beyond_the_seconds_of_its_host_keeps_its_content_and_validators(
    site: Site, crawl: Crawl
):
    site.pages["/a.xlsx"] = workbook(row(1, "A1", "early words"))
    others = [f"/page{n}" for n in range(12)]  # one failure in ten makes a run incomplete
    site.pages |= {path: html("Page", text=f"plain {path[1:]}") for path in others}
    site.pages["/"] = html("Home", "/long.xlsx", "/a.xlsx", "/page", *others)
    site.pages["/page"] = html("Page", text="plain words")
    crawl(site.url("/"))
    before = crawl.pages()["/a.xlsx"]

    site.pages["/long.xlsx"] = long(name="first")
    late = workbook(row(1, "A1", "late words"))
    site.pages["/a.xlsx"] = replace(late, delay=3)  # the other one is there first
    site.pages["/page"] = html("Page", text="other words")
    crawl.environment |= {"EXTRACT_PROCESSES": "1", "EXTRACT_SECONDS_PER_HOST": "1"}
    crawl(site.url("/"))

    status, outcome, message = fault(crawl, "/a.xlsx")
    assert (status, outcome) == (1217, "failed")
    assert "extraction_budget" in message
    assert crawl.runs()[0]["notes"] == [f"extraction_budget: 1 page, {site.url('/a.xlsx')}"]
    assert crawl.hits('"early words"') == ["/a.xlsx"]
    assert crawl.hits('"other words"') == ["/page"]
    after = crawl.pages()["/a.xlsx"]
    assert (after["httpEtag"], after["contentHash"]) == (before["httpEtag"], before["contentHash"])

    assert crawl.hits('"first words"') == ["/long.xlsx"]  # it had begun
    crawl(site.url("/"))  # the other one is not read again: its bytes are the same
    assert crawl.hits('"late words"') == ["/a.xlsx"]


@pytest.mark.long
def test_documents_that_take_too_long_are_known_after_the_budget_let_each_of_them_begin(
    site: Site, crawl: Crawl
):
    slow = [f"/{n}.json" for n in range(3)]
    for n, path in enumerate(slow):
        body = b"[%d," % n + b"[]," * 2_500_000 + b"1]"
        site.pages[path] = Page(body, content_type="application/json")
    site.pages["/"] = html("Home", *slow)
    crawl.environment |= {
        "EXTRACT_MEMORY_MB": "256", "EXTRACT_PROCESSES": "1", "EXTRACT_SECONDS_PER_HOST": "1",
    }  # fmt: skip
    known = "found before with the same bytes"

    for _ in range(len(slow) + 1):
        crawl(site.url("/"))

    assert [fault(crawl, path)[0] for path in slow] == [1210] * 3
    assert all(known in fault(crawl, path)[2] for path in slow)


def test_our_own_failure_on_a_page_is_its_outcome_and_the_page_is_not_lost(
    site: Site, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
):
    """Trap 5: any other exception would lose the visit, and the page stay pending for ever."""
    real = html_reader.parse_html

    def parse(body: bytes, **named: object) -> object:
        if b"poison" in body:
            raise ZeroDivisionError("by the page")
        return real(body, **named)

    monkeypatch.setattr(html_reader, "parse_html", parse)
    site.pages["/"] = html("Home", "/bad", "/new")
    site.pages["/bad"] = html("Bad", "/child", text="held words")
    site.pages["/child"] = html("Child")
    crawl(site.url("/"))
    site.pages["/bad"] = html("Bad", text="poison")
    site.pages["/new"] = html("New", text="poison")

    crawl(site.url("/"), traceback=True, expect=3)  # more than 10 % could not be processed

    pages = crawl.pages()
    for path in ("/bad", "/new"):
        assert (pages[path]["lastOutcome"], pages[path]["status"]) == ("failed", "Error")
        assert 1200 <= pages[path]["httpStatusCode"] < 1300
        assert "by the page" in pages[path]["errorMessage"]
    assert pages["/bad"]["effectiveStatus"] == 200
    assert crawl.hits("held") == ["/bad"]
    assert pages["/child"]["lastOutcome"] == "unchanged"
    assert crawl.counts_add_up()

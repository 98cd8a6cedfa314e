"""Apache with a compressing filter, which does not know the tags that it sends."""

import pytest

from tests.crawls.commands import Crawl
from tests.servers.apache import apache
from tests.site_server import html

PAGES = 30


@pytest.mark.covers("RD-04", "R0-97")
@pytest.mark.parametrize("coding", ["DEFLATE", "BROTLI_COMPRESS"])
def test_a_filter_that_marks_its_tags_is_asked_for_the_plain_ones_too(crawl: Crawl, coding: str):
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    pages = {f"p{n}.html": html(f"Page {n}", text=f"the text of {n} " * 60) for n in range(PAGES)}
    pages["index.html"] = html("Home", *pages)
    with apache(pages, coding=coding) as (url, root):
        crawl(url)
        assert all(record["httpEtag"].endswith(('-gzip"', '-br"')) for record in crawl.records())
        crawl(url)
        learnt = crawl.runs()[0]
        assert learnt["requests"] == PAGES + 1

        crawl(url)

        run = crawl.runs()[0]
        assert run["notModified"] == run["requests"] == PAGES + 1
        assert set(crawl.outcomes().values()) == {"unchanged"}
        (root / "p7.html").write_text(html("Page 7", text="brand new words " * 60))
        crawl(url)
        assert crawl.outcomes()["/p7.html"] == "modified"
        assert crawl.runs()[0]["notModified"] == PAGES
        crawl(url)
        assert crawl.runs()[0]["notModified"] == PAGES + 1

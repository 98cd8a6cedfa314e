"""Searches while a crawl goes on in which an original leaves its clones."""

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.stories import LONG, Story
from tests.site_server import Site, html

ALIKE = ("/a", "/bb", "/ccc")  # the shortest address comes first
WHALES = html("Whales", text=LONG)


@pytest.mark.covers("R4-14", "M-23", "RD-10", "R1-36")
def test_while_an_original_leaves_each_search_finds_the_text_once(site: Site, crawl: Crawl):
    story = Story(site, crawl, LOST_THRESHOLD=1)
    story.home(*ALIKE)
    site.pages |= dict.fromkeys(ALIKE, WHALES)
    story.run()
    assert crawl.hits("whales") == ["/a"]
    site.pages["/a"] = html("Giraffes", text=LONG.replace("whales", "giraffes"))
    story.page("/other/1", text="filler 1", delay=4)  # the others are committed long before
    seen = []
    with crawl.start(site.url("/"), settings=story.settings) as running:
        while running.process.poll() is None:
            story.forget()
            seen.append((len(crawl.hits("whales")), len(crawl.hits("giraffes"))))
        result = running.end()
    assert result.status == 0, result
    story.forget()

    assert {whales for whales, _ in seen} == {1}
    assert [giraffes for _, giraffes in seen] == sorted(giraffes for _, giraffes in seen)
    assert (crawl.hits("whales"), crawl.hits("giraffes")) == (["/bb"], ["/a"])

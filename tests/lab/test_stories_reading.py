"""Stories of what a reader gets of links, pictures and pages of documents."""

import json

import pytest

from tests.extract.test_pdf_pages import Bookmark, book
from tests.lab.lab import Lab, Page, page


@pytest.mark.sqlite
def test_a_hit_in_a_pdf_names_and_links_its_page(lab: Lab):
    manual = book(
        [("Lamps", 24), ("Before all else.", 11)],
        [("Fuses", 16), ("A zephyrine fuse of two ampere.", 11)],
        bookmarks=(Bookmark(1, "Fuses", 1),),
    )
    lab.pages |= {
        "/": page("Home", "/manual.pdf"),
        "/manual.pdf": Page(manual, content_type="application/pdf"),
    }
    lab.run()

    [hit] = json.loads(lab.crawl.run("search", "zephyrine", "--format", "json").out)
    shown = lab.crawl.run("search", "zephyrine").out

    [chunk] = hit["chunks"]
    assert (chunk["path"], chunk["page"]) == ("Fuses", 2)
    assert chunk["link"] == f"{hit['url']}#page=2" == lab.site.url("/manual.pdf#page=2")
    assert f"{hit['url']}#page=2  page 2" in " ".join(shown.split(" "))

"""Documents of kinds that are not read are counted, wherever they were found."""

from collections import Counter

from smartcrawl.sources.github.content import github_listing_entries
from smartcrawl.sources.github.payloads import github_tree_of_answer
from smartcrawl.sources.listing.entries import ListingRules, Skip
from tests.crawls.commands import Crawl
from tests.site_server import Site, html
from tests.sources.github.test_github_payloads import A, tree


def test_links_to_documents_that_are_not_read_are_counted_once(site: Site, crawl: Crawl):
    links = ("/a.doc", "/b.DOC?x=1", "/c.rtf", "/d.png", "http://other.example/e.doc")
    site.pages["/"] = html("Home", "/more", *links)
    site.pages["/more"] = html("More", *links, "/print/f.doc")
    crawl.declare(
        "[sources.docs]\nkind = 'site'\n"
        f"seeds = ['{site.url('/')}']\nexcluded_patterns = ['/print/']\n"
    )

    result = crawl(source="docs")

    assert "3 files, 2 .doc, 1 .rtf" in result.out
    assert crawl.runs()[0]["complete"]
    assert "3 files, 2 .doc, 1 .rtf" in crawl.run("status", expect=None).out


def test_a_tree_counts_documents_that_are_not_read():
    names = ("a.md", "b.doc", "old/c.VSD", "d.doc", "e.png")
    items = [
        {"path": name, "mode": "100644", "type": "blob", "sha": A, "size": 1} for name in names
    ]
    kinds: Counter[str] = Counter()

    found = [
        *github_listing_entries(
            github_tree_of_answer(tree(*items)).tree,
            root="https://github.com/o/r/blob/main",
            folder="",
            prefix="",
            rules=ListingRules(),
            kinds=kinds,
        )
    ]

    assert found.count(Skip.TYPE) == 4
    assert kinds == {".doc": 2, ".vsd": 1}

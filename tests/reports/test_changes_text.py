"""Changes in words, as Markdown and as a feed."""

import pytest
from lxml import etree

from smartcrawl.model.exceptions import UsageError
from smartcrawl.reports.changes_text import (
    FeedAddresses,
    changes_as_atom,
    changes_as_markdown,
    parse_changes_since,
    where_it_changed,
)
from tests.modules import ROOT

NOTHING = {
    "source": "docs", "run": 7, "at": "2026-11-30T10:00:00Z", "kind": "new", "no": 1,
    "urlHash": "ab", "url": "https://a.example/x", "title": "X", "formerUrl": None, "why": None,
    "pages": 1, "share": None, "wordsAdded": None, "wordsRemoved": None, "headings": [],
    "moreHeadings": 0, "lines": [], "moreLines": 0, "formerTitle": None,
}  # fmt: skip
MODIFIED = NOTHING | {
    "kind": "modified",
    "title": "<script>alert(1)</script>",
    "share": 0.004,
    "wordsAdded": 3,
    "wordsRemoved": 1,
    "headings": [{"heading": h, "wordsAdded": 1, "wordsRemoved": 0} for h in "ABCD"],
    "moreHeadings": 2,
    "lines": [{"sign": "+", "text": "a <b> & \x01 c", "pages": 1}],
    "moreLines": 4,
    "formerTitle": "Old",
}
SHARED = NOTHING | {
    "kind": "shared", "no": None, "urlHash": None, "url": None, "title": None, "pages": 4,
    "lines": [
        {"sign": "-", "text": "© 2025", "pages": 4}, {"sign": "+", "text": "© 2026", "pages": 3},
    ],
    "moreLines": 1,
}  # fmt: skip
MOVED = NOTHING | {"kind": "moved", "formerUrl": "https://a.example/w"}


def test_where_a_page_changed():
    assert where_it_changed(MODIFIED) == "its title was 'Old'; A; B; C; 3 more headings"
    assert where_it_changed(SHARED) == "- © 2025; + © 2026; 1 more"
    assert where_it_changed(MOVED) == "before https://a.example/w"
    assert where_it_changed(NOTHING | {"why": "answered 404"}) == "answered 404"
    first = {"heading": "", "wordsAdded": 1, "wordsRemoved": 0}
    assert where_it_changed(MODIFIED | {"headings": [first]}).startswith(
        "its title was 'Old'; before the first heading"
    )


def test_markdown_has_a_section_for_each_run_and_escapes_text():
    older = MOVED | {"run": 6}

    assert list(changes_as_markdown([SHARED, MODIFIED, NOTHING | {"kind": "modified"}, older])) == [
        "## docs, run 7",
        "",
        "### On many pages at once",
        "",
        "- removed from 4 pages: © 2025",
        "- added to 3 pages: © 2026",
        "- 1 more line",
        "",
        "### Modified",
        "",
        "- [\\<script>alert(1)\\</script>](<https://a.example/x>): less than 1 %: +3 -1 words;"
        " its title was 'Old'; A; B; C; 3 more headings",
        "- [X](<https://a.example/x>)",
        "",
        "## docs, run 6",
        "",
        "### Moved",
        "",
        "- [X](<https://a.example/x>): before https://a.example/w",
    ]
    assert list(changes_as_markdown([])) == ["Nothing changed."]


def test_a_feed_is_valid_and_keeps_text_text():
    addresses = FeedAddresses("https://s.example/feed?a=1&b=2", "https://s.example/changes")
    feed = changes_as_atom("a & b", [SHARED, MODIFIED, MOVED], "2026-11-30T12:00:00Z", addresses)

    tree = etree.fromstring(feed.encode())
    rules = etree.RelaxNG(etree.parse(ROOT / "tests/data/atom.rng"))
    assert rules.validate(tree), rules.error_log
    names = {"a": "http://www.w3.org/2005/Atom"}
    contents = tree.xpath("//a:content/text()", namespaces=names)
    assert "<li><ins>a &lt;b&gt; &amp; \ufffd c</ins></li><li>4 more lines</li>" in contents[1]
    assert contents[0].startswith("<ul><li><del>© 2025</del></li>")
    titles = tree.xpath("//a:entry/a:title/text()", namespaces=names)
    assert titles == ["shared: 4 pages at once", "modified: <script>alert(1)</script>", "moved: X"]
    assert tree.xpath("a:updated/text()", namespaces=names) == ["2026-11-30T10:00:00Z"]
    ids = tree.xpath("//a:id/text()", namespaces=names)
    assert len(set(ids)) == 4
    again = changes_as_atom("a & b", [MODIFIED], "2026-12-01T00:00:00Z")
    assert ids[2] in again


def test_an_empty_feed_is_valid():
    tree = etree.fromstring(changes_as_atom("", [], "2026-11-30T12:00:00Z").encode())

    assert etree.RelaxNG(etree.parse(ROOT / "tests/data/atom.rng")).validate(tree)
    assert tree.findtext("{*}title") == "What changed in all sources"


@pytest.mark.parametrize("text", ["", "0", "yesterday", "2026-02-30", "2026-1-1", "-1", "1e3"])
def test_what_is_no_run_or_time_is_refused(text: str):
    with pytest.raises(UsageError, match="is not a run or a time: give its number, last, or a"):
        parse_changes_since(text)

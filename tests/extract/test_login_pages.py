"""The proof of a login in a page, most of which need not be parsed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract import login_pages
from smartcrawl.extract.login_pages import shows_login_proof

OUT = "<a href='/out' title='a > b'>Log out</a>"
LONG = "<p>filler &amp; more</p>" * 1_000
SELECTORS = (
    "a[href='/out']", "a[title]", "a[title^='a']", "body > a", "p a", "p + a", "p ~ a", ".in a",
    "#top > p", "div p", "html[lang] a", "a",
)  # fmt: skip
PIECES = st.sampled_from(
    (
        OUT, "<p>", "</p>", "<p id=top>", "<div class=in>", "</div>", "<html lang=en>", "<body>",
        "<!-- ", " -->", "<script>", "</script>", "<title>", "</title>", "<a title='x", "'>",
        "<textarea>", "</textarea>", "<table><tr>", "</table>", "<b><i></b>", "text", "<", "é",
    )
)  # fmt: skip


def shows(markup: str, selector: str = "a[href='/out']") -> bool:
    return shows_login_proof(markup.encode(), "text/html; charset=utf-8", selector)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of what is parsed."""
    lengths: list[int] = []
    whole = login_pages._tree

    def tree(markup: str) -> object:
        lengths.append(len(markup))
        return whole(markup)

    monkeypatch.setattr(login_pages, "_tree", tree)
    return lengths


@pytest.mark.parametrize(
    ("markup", "found", "lengths"),
    [
        (OUT + LONG, True, [4_096]),
        (LONG + OUT, True, [4_096, 24_040]),
        (LONG, False, [4_096, 24_000]),
        (OUT, True, [40]),
        (OUT + 4 * LONG, True, [12_005]),
    ],
)
def test_the_beginning_of_a_page_is_searched_first(
    markup: str, found: bool, lengths: list[int], parsed: list[int]
):
    assert (shows(markup), parsed) == (found, lengths)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("a:last-child", False),
        ("p:only-of-type", False),
        ("body:not(:has(b))", False),
        ("b", True),
    ],
)
def test_what_comes_later_counts_where_the_selector_looks_at_it(
    selector: str, found: bool, parsed: list[int]
):
    markup = f"<body><div>{OUT}</div><p>one</p>{' ' * 9_000}<p>two<b>three</b>"
    markup = markup.replace("</div>", f"{' ' * 9_000}<i>after</i></div>")
    assert shows(markup, selector) is found
    assert max(parsed) == len(markup)


@given(st.lists(PIECES, max_size=30), st.sampled_from(SELECTORS))
def test_a_beginning_that_shows_the_proof_is_that_of_a_page_that_does(
    pieces: list[str], selector: str
):
    """Wherever it ends: within a tag, a comment, a script."""
    markup = "".join(pieces)
    assert not login_pages._LOOKS_AHEAD.search(selector)
    if not login_pages._has(markup, selector):
        for length in range(len(markup)):
            assert not login_pages._has(markup[:length], selector), markup[:length]

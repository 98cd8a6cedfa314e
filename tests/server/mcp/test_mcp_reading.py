"""What the tools answer, in this process: parts of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.server.mcp.reading import McpRefusalError, escaped_mcp_text, mcp_text_part

_TEXTS = st.text(st.sampled_from("ab\n\té漢"), max_size=200)


@given(_TEXTS, st.integers(1, 50))
def test_parts_joined_are_the_text(text: str, most: int):
    parts, cursor = [], None
    while cursor is not None or not parts:
        part = mcp_text_part(text, cursor, most)
        assert 0 < len(part.text) <= most or not text
        parts.append(part.text)
        cursor = part.cursor

    assert "".join(parts) == text


def test_a_cursor_of_another_text_is_refused():
    cursor = mcp_text_part("a" * 30, None, 10).cursor
    assert cursor is not None

    for text, said in (("b" * 30, "the page has changed"), ("a" * 30, "")):
        if said:
            with pytest.raises(McpRefusalError, match=said):
                mcp_text_part(text, cursor, 10)
        else:
            assert mcp_text_part(text, cursor, 10).text == "a" * 10
    with pytest.raises(McpRefusalError, match="behind the end"):
        mcp_text_part("a" * 30, cursor.replace("10-", "30-"), 10)


@given(st.text(st.characters(codec="utf-8"), max_size=50))
def test_nothing_that_controls_a_terminal_is_left(text: str):
    found = escaped_mcp_text(text)

    assert not set(found) & {*map(chr, range(9)), *map(chr, range(11, 32)), "\x7f", "\u202e"}

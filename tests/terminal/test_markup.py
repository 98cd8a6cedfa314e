"""Markup without Rich: the same as Rich makes of it."""

import io
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.errors import MarkupError
from rich.markup import escape as riches
from rich.text import Text

from smartcrawl.terminal.markup import escape, markup_without_styles
from smartcrawl.terminal.output import Output

#: What markup and its escapes are made of.
PARTS = ["[", "]", "\\", "a", "/", "bold", "[/]", "[bold]", "[/bold]", "[link=x]", "=", "#", "@",
         "1", " ", "\n", "\t", "\x0b", "é", "[red on black]"]  # fmt: skip
texts = st.lists(st.sampled_from(PARTS), max_size=9).map("".join)


def plain(markup: str) -> str | None:
    """What Rich prints; None: it refuses the markup."""
    try:
        return Text.from_markup(markup, emoji=False).plain
    except MarkupError:
        return None


@given(texts)
def test_an_escaped_text_is_that_of_rich(text: str):
    assert escape(text) == riches(text)
    if text.isprintable():
        assert markup_without_styles(escape(text)) == plain(escape(text))


@given(texts)
def test_markup_without_styles_is_what_rich_prints(markup: str):
    found = markup_without_styles(markup)
    assert found is None or found == plain(markup)


def test_all_short_markup_is_what_rich_prints():
    wrong = [
        (markup, found, plain(markup))
        for parts in product(PARTS[:11], repeat=3)
        if (found := markup_without_styles(markup := "".join(parts))) not in (None, plain(markup))
    ]
    assert not wrong


def test_markup_without_controls_that_rich_takes_is_not_left_to_it():
    for markup in ("[bold]1. [/]a", "[red]a[/red] [b]", "a]b", "\\[a]", "[link=http://x/]a[/link]"):
        assert markup_without_styles(markup) == plain(markup)


@pytest.mark.parametrize("markup", ["[bold]1. a[/]  b", "a\tb\x07", "[dim]x[/dim]\n[/]"])
def test_a_line_in_a_pipe_is_the_one_that_rich_prints_there(markup: str):
    ours, theirs = io.StringIO(), io.StringIO()
    console = Console(file=theirs, highlight=False, soft_wrap=True)
    try:
        console.print(Text.from_markup(markup, emoji=False))
    except MarkupError:
        with pytest.raises(MarkupError):
            Output(ours).line(markup)
    else:
        Output(ours).line(markup)
    assert ours.getvalue() == theirs.getvalue()


def test_styles_are_printed_where_a_variable_asks_for_them(monkeypatch: pytest.MonkeyPatch):
    file = io.StringIO()
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    Output(file).line("[bold]a[/]")
    assert file.getvalue() == "\x1b[1ma\x1b[0m\n"

"""Tables fit the terminal: names are folded, numbers never, and a pipe gets whole lines."""

import io
import re

import pytest

from smartcrawl.terminal.output import Output
from smartcrawl.terminal.tables import (
    fold_printed_cell,
    print_table,
    printed_name_column,
    printed_note_column,
    printed_number_column,
    printed_whole_column,
    printed_word_column,
)

COLUMNS = (
    printed_number_column("run"),
    printed_name_column("source"),
    printed_word_column("started"),
    printed_number_column("requests"),
    printed_number_column("new"),
    printed_whole_column("url"),
    printed_note_column("why"),
)
SHORT = {
    "run": "7",
    "source": "docs",
    "started": "21 Nov 09:05",
    "requests": 12_345_678,
    "new": 9,
    "url": "http://a.example/",
    "why": None,
}
LONG = SHORT | {
    "source": "a-source-with-a-very-long-name.docs.example.com:8080",
    "url": "http://a.example/" + "segment-1234567/" * 12,
    "why": "the server or the network was failing: " * 4,
}


def shown(
    *rows: dict[str, object] | str, width: int | None, monkeypatch: pytest.MonkeyPatch, empty=""
) -> list[str]:
    if width is None:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(width))
    file = io.StringIO()
    print_table(COLUMNS, rows, empty=empty, file=file)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [120, 80, 60, 50])
def test_only_addresses_are_longer_than_a_line(width: int, monkeypatch: pytest.MonkeyPatch):
    lines = shown(SHORT, LONG, width=width, monkeypatch=monkeypatch)

    long = [line for line in lines if len(line) > width]
    assert [line.strip() for line in long] == [LONG["url"]]
    assert sum("12,345,678" in line for line in lines) == 2
    assert "".join(line.strip() for line in lines).count("21 Nov 09:05") == 2


def test_an_address_that_is_longer_than_a_line_has_no_empty_line_below(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("COLUMNS", "80")
    file = io.StringIO()

    Output(file).say(str(LONG["url"]), label="    ", indent=6)

    assert file.getvalue() == f"    {LONG['url']}\n"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200, None])
def test_no_number_is_broken_in_any_width(width, monkeypatch: pytest.MonkeyPatch):
    def numbers(width: int | None) -> list[str]:
        lines = shown(SHORT, LONG, width=width, monkeypatch=monkeypatch)
        return sorted(re.findall(r"\d+", "\n".join(lines)))

    assert numbers(width) == numbers(None)


def test_a_pipe_gets_a_line_for_each_row(monkeypatch: pytest.MonkeyPatch):
    head, first, second = shown(SHORT, LONG, width=None, monkeypatch=monkeypatch)

    assert head.split() == ["run", "source", "started", "requests", "new", "url", "why"]
    assert LONG["source"] in second
    assert LONG["url"] in second
    assert second.endswith(str(LONG["why"]).strip())
    assert first.index("21 Nov") == head.index("started")


def test_what_fits_stays_in_the_line(monkeypatch: pytest.MonkeyPatch):
    head, row = shown(SHORT | {"why": "cut"}, width=80, monkeypatch=monkeypatch)

    assert re.split(" +", row)[1:] == [
        "7", "docs", "21", "Nov", "09:05", "12,345,678", "9", "http://a.example/", "cut",
    ]  # fmt: skip
    assert head.endswith("why")


def test_without_room_a_row_is_a_list_of_its_cells(monkeypatch: pytest.MonkeyPatch):
    lines = shown(SHORT, SHORT | {"run": "6"}, width=22, monkeypatch=monkeypatch)

    assert lines[:3] == ["run: 7", "    source: docs", "    started: 21 Nov"]
    assert lines.count("run: 6") == 1


def test_a_sentence_below_its_row_goes_on_further_to_the_right(monkeypatch: pytest.MonkeyPatch):
    lines = shown(SHORT | {"why": "so many words " * 9}, width=60, monkeypatch=monkeypatch)

    first = next(n for n, line in enumerate(lines) if line.startswith("    why: so many"))
    assert all(re.match(r" {6}\w", line) for line in lines[first + 1 :])
    assert len(lines) > first + 1


def test_columns_without_text_are_left_out_on_a_terminal(monkeypatch: pytest.MonkeyPatch):
    assert "why" not in shown(SHORT, width=80, monkeypatch=monkeypatch)[0]
    assert "why" in shown(SHORT, width=None, monkeypatch=monkeypatch)[0]


def test_an_empty_table_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    assert shown(width=80, monkeypatch=monkeypatch, empty="no run yet") == ["no run yet"]


def test_a_heading_is_no_row(monkeypatch: pytest.MonkeyPatch):
    lines = shown("Limits", SHORT, width=80, monkeypatch=monkeypatch)

    assert lines[1] == "Limits"


def test_many_rows_are_printed_before_all_of_them_are_read(monkeypatch: pytest.MonkeyPatch):
    """The widths only grow, so that a long row moves no earlier one."""
    rows = [SHORT | {"run": str(n)} for n in range(1_000)] + [LONG]
    lines = shown(*rows, width=80, monkeypatch=monkeypatch)

    assert lines[0].index("requests") <= lines[1_000].index("12,345,678") + 10
    assert lines[-3].strip() != ""
    assert sum("12,345,678" in line for line in lines) == 1_001


def test_control_characters_of_a_page_do_not_reach_the_terminal(monkeypatch: pytest.MonkeyPatch):
    [_, row] = shown(SHORT | {"url": "http://a\x1b[2J\n"}, width=80, monkeypatch=monkeypatch)

    assert "\\x1b" in row
    assert "\x1b[2J" not in row


@pytest.mark.parametrize(
    ("text", "width"), [("日本語のページ/二つ目", 8), ("x" * 50, 12), ("a b", 1), ("1234567890", 4)]
)
def test_folding_loses_nothing(text: str, width: int):
    assert "".join(fold_printed_cell(text, width)) == text.replace(" ", "")


def test_a_sentence_is_wrapped_and_its_command_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    file = io.StringIO()
    command = "scrapy registry --outcome lost --source docs.example.com"

    Output(file).say("3 pages are lost; each of them answered with an error:", command=command)

    *text, last = file.getvalue().splitlines()
    assert all(len(line) <= 40 for line in text)
    assert last == f"  {command}"
    monkeypatch.delenv("COLUMNS")
    file = io.StringIO()
    Output(file).say("3 pages are lost:", command=command)
    assert file.getvalue() == f"3 pages are lost:  {command}\n"


def test_a_column_is_headed_by_its_key_unless_it_has_a_head(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    kinds = (
        printed_number_column, printed_name_column, printed_word_column, printed_whole_column,
        printed_note_column,
    )  # fmt: skip

    for kind in kinds:
        file = io.StringIO()
        print_table((kind("one"), kind("two", "Second")), [{"one": "x", "two": "y"}], file=file)
        assert file.getvalue().split()[:2] == ["one", "Second"]

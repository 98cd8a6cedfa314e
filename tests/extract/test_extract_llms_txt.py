"""The links of an llms.txt: Markdown of strangers, within bounds."""

import re
import sys
from collections.abc import Iterator
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from smartcrawl.extract import sitemaps
from smartcrawl.extract.sitemaps import (
    MAX_ENTRIES,
    SitemapError,
    SitemapFault,
    SitemapKind,
    read_llms_txt,
)

URL = "https://a.example/docs/llms.txt"
TEXT = "text/plain; charset=utf-8"


def links(text: str | bytes, content_type: str = TEXT) -> list[str]:
    body = text.encode() if isinstance(text, str) else text
    found = read_llms_txt(body, content_type=content_type, url=URL)
    assert found.kind is SitemapKind.LLMS_TXT
    return [entry.url for entry in found.entries]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("[a](https://b.example/x)", ["https://b.example/x"], id="absolute"),
        pytest.param("[a](x/y.md?z=1#part)", ["https://a.example/docs/x/y.md?z=1"], id="relative"),
        pytest.param("[a](/x) and [b](/y)", ["https://a.example/x", "https://a.example/y"], id="2"),
        pytest.param("[a](/x)\n[b](/x)", ["https://a.example/x"], id="once"),
        pytest.param('- [a](/x "A title"): notes', ["https://a.example/x"], id="with-a-title"),
        pytest.param("[a](</x y>)", ["https://a.example/x%20y"], id="in-angle-brackets"),
        pytest.param("[a](/x_(y))", ["https://a.example/x_(y)"], id="with-parentheses"),
        pytest.param(r"[a](/x\_y)", ["https://a.example/x_y"], id="with-an-escape"),
        pytest.param("[`list[int]`](/x)", ["https://a.example/x"], id="with-brackets-in-code"),
        pytest.param("[list[int]](/x)", ["https://a.example/x"], id="with-brackets-in-its-name"),
        pytest.param("[![badge](b.svg)](/x)", ["https://a.example/x"], id="of-an-image"),
        pytest.param("see <https://a.example/x>", ["https://a.example/x"], id="of-an-address"),
        pytest.param("[a][1]\n\n[1]: /x", ["https://a.example/x"], id="by-reference"),
        pytest.param("\ufeff# A\r\n[a](/x)\r\n", ["https://a.example/x"], id="of-windows"),
    ],
)
def test_links_are_addresses(text: str, found: list[str]):
    assert links(text) == found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("![a](/y.png)", id="image"),
        pytest.param("`[a](/y)`", id="code"),
        pytest.param("```\n[a](/y)\n~~~\n[b](/y)\n```", id="fenced-code"),
        pytest.param("~~~ md\n[a](/y)\n~~~", id="other-fence"),
        pytest.param(r"\[a](/y)", id="escaped"),
        pytest.param("[a](javascript:alert(1))", id="javascript"),
        pytest.param("[a](file:///etc/passwd)", id="file"),
        pytest.param("[a](data:text/html,x)", id="data"),
        pytest.param("[a](mailto:b@a.example)", id="mail"),
        pytest.param("[a](#part)", id="itself"),
        pytest.param("[a](/y", id="without-an-end"),
        pytest.param("[a]()", id="empty"),
        pytest.param("[a](https://)", id="no-host"),
        pytest.param(f"[a](/{'y' * 5_000})", id="long"),
        pytest.param("plain text (/y)", id="text"),
    ],
)
def test_what_is_no_link_to_a_page_is_left_out(text: str):
    assert links(f"[x](/x)\n{text}\n[z](/z)") == ["https://a.example/x", "https://a.example/z"]


@pytest.mark.parametrize(
    ("body", "content_type", "fault"),
    [
        (b"<!doctype html><title>x</title>[a](/x)", TEXT, SitemapFault.NOT_A_SITEMAP),
        (b"[a](/x)", "text/html", SitemapFault.NOT_A_SITEMAP),
        (b"[a](/x)", "application/pdf", SitemapFault.NOT_A_SITEMAP),
        (b"[a](/x)\xff", TEXT, SitemapFault.NOT_A_SITEMAP),
        (b"[a](/x)\0", TEXT, SitemapFault.NOT_A_SITEMAP),
        (b"\x1f\x8b\x08[a](/x)", TEXT, SitemapFault.NOT_A_SITEMAP),
        (b"", TEXT, SitemapFault.NOT_A_SITEMAP),
        (b"# Nothing here", TEXT, SitemapFault.NOT_A_SITEMAP),
        (b"[a](/x)\n" * (10_000_000 // 8), TEXT, SitemapFault.TOO_LARGE),
    ],
    ids=["html", "declared-html", "pdf", "latin-1", "binary", "gzip", "empty", "no-link", "10-mb"],
)
def test_what_is_no_llms_txt_is_refused(body: bytes, content_type: str, fault: SitemapFault):
    with pytest.raises(SitemapError) as error:
        read_llms_txt(body, content_type=content_type, url=URL)

    assert error.value.kind is fault


@pytest.mark.parametrize("content_type", ["text/markdown", "text/plain", "", "text/x-markdown"])
def test_text_and_markdown_are_read(content_type: str):
    assert links("[a](/x)", content_type) == ["https://a.example/x"]


def test_more_addresses_than_a_sitemap_may_have_are_cut():
    text = "\n".join(f"[a](/{n})" for n in range(MAX_ENTRIES + 1))

    found = read_llms_txt(text.encode(), content_type=TEXT, url=URL)

    assert (len(found.entries), found.cut) == (MAX_ENTRIES, True)


def nested_repeats(tree: Any, *, within: bool = False) -> int:
    """Return how many repetitions of a pattern are within others that may be tried again."""
    found = 0
    for op, value in tree:
        repeats = op in (_constants.MAX_REPEAT, _constants.MIN_REPEAT) and value[1] > 1
        found += repeats and within
        outer = (within or repeats) and op is not _constants.ATOMIC_GROUP  # it matches in one way
        for part in _parts(value):
            found += nested_repeats(part, within=outer)
    return found


def _parts(value: Any) -> Iterator[Any]:
    """Yield the trees in the value of a node."""
    if isinstance(value, _parser.SubPattern):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _parts(one)


PATTERNS = {
    name: value if isinstance(value, re.Pattern) else value.__self__
    for name, value in vars(sitemaps).items()
    if isinstance(value, re.Pattern) or isinstance(getattr(value, "__self__", None), re.Pattern)
}


def test_repetitions_within_repetitions_are_found():
    assert nested_repeats(_parser.parse(r"(?:a+|b)*c")) == 1
    assert nested_repeats(_parser.parse(r"(?:a+|b)*+c")) == 0
    assert nested_repeats(_parser.parse(r"(?>a+|b)*c")) == 0


@pytest.mark.parametrize("name", PATTERNS)
def test_no_pattern_can_be_tried_in_more_ways_than_its_text_is_long(name: str):
    assert nested_repeats(_parser.parse(PATTERNS[name].pattern)) == 0


def calls(text: str) -> int:
    """Return how many functions, those in C included, are called to read a text."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        links(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "part",
    [
        "[",
        "](",
        "[a](",
        "![",
        "`",
        "``",
        "\\",
        "[a](((",
        "[a](\\",
        "<http://a",
        "[a](a",
        "<",
        "[a]: ",
    ],
)
def test_twice_the_hostile_text_takes_twice_the_work(part: str):
    once, twice = (calls("[x](/x)\n" + part * (size // len(part))) for size in (8_192, 16_384))

    assert twice <= 2.05 * once + 50
    assert once < 10 * 8_192

"""Reading of llms.txt: the links of a Markdown file that lists the pages of a site."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from smartcrawl.extract.links import document_base_url
from smartcrawl.extract.sitemap_entries import (
    MAX_TEXT,
    Sitemap,
    SitemapAddresses,
    SitemapError,
    SitemapFault,
    SitemapKind,
)
from smartcrawl.extract.sitemaps import looks_like_html_page
from smartcrawl.model.urls import join_url

LLMS_TXT: Final = "/llms.txt"  #: its path
MAX_LLMS_TXT: Final = 2 * 1024 * 1024  #: bytes

#: Media types that servers give text files without a type of their own, and Markdown.
_TYPES: Final = frozenset(
    {"", "text/plain", "text/markdown", "text/x-markdown", "application/octet-stream"}
)
_FENCE: Final = re.compile(r" {0,3}(```|~~~)").match
#: What counts in a line, without backtracking: escapes, brackets, addresses in angle brackets.
_TOKENS: Final = re.compile(r"\\.|`+|!\[|\[|\]\(|\]|<(https?://[^\s<>]{1,4096})>", re.IGNORECASE)
#: The target of a link, behind its bracket: in angle brackets, or with balanced parentheses.
_TARGET: Final = re.compile(
    rf"[ \t]{{0,8}}(?:<([^<>]{{1,{MAX_TEXT}}})>"
    rf"|((?:[^\s()<>\\]|\\.|\([^\s()<>]{{0,200}}\)){{1,{MAX_TEXT}}}+))(?=[\s)])"
).match
_DEFINITION: Final = re.compile(rf" {{0,3}}\[[^\[\]]{{1,200}}\]:[ \t]{{1,8}}<?(\S{{1,{MAX_TEXT}}})")
_ESCAPE: Final = re.compile(r"\\([!-/:-@\[-`{-~])")
_BINARY: Final = re.compile("[\0-\x08\x0e-\x1a\x1c-\x1f]")


def is_llms_txt(url: str) -> bool:
    """Whether an address is that of an llms.txt.

    >>> is_llms_txt("https://a.example/docs/llms.txt?v=1"), is_llms_txt("https://a.example/llms")
    (True, False)
    """
    return urlsplit(url).path.endswith(LLMS_TXT)


def parsed_llms_txt_url(url: str) -> str:
    """Return the address of the llms.txt of a site, by one of its pages.

    >>> parsed_llms_txt_url("https://a.example:8443/docs/?q=1")
    'https://a.example:8443/llms.txt'
    """
    return urlsplit(url)._replace(path=LLMS_TXT, query="", fragment="").geturl()


def read_llms_txt(body: bytes, *, content_type: str, url: str) -> Sitemap:
    """Return the addresses to which the links of a Markdown text lead, without those of images.

    Links in code do not count. Relative addresses are joined with ``url``; those of other schemes
    than http and https are dropped.

    Raises:
        SitemapError: TOO_LARGE beyond ``MAX_LLMS_TXT``; NOT_A_SITEMAP for HTML, another media type,
            bytes that are no UTF-8 text, and a text without links.
        ValueError: ``url`` is not absolute.

    Source: https://llmstxt.org/, "Format"; CommonMark 0.31, sections 6.3 and 6.5.
    """
    base = document_base_url(url)
    if len(body) > MAX_LLMS_TXT:
        message = f"{base} has more than {MAX_LLMS_TXT:,} bytes: give the pages in a sitemap"
        raise SitemapError(message, SitemapFault.TOO_LARGE)
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in _TYPES or looks_like_html_page(body):
        raise _stranger(f"{base} is {media_type or 'HTML'}, not Markdown or plain text")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _stranger(f"{base} is no UTF-8 text") from error
    if _BINARY.search(text):
        raise _stranger(f"{base} has control characters: it is no text")
    addresses = SitemapAddresses()
    for href in _hrefs(text):
        found = join_url(base, href)
        if found != str(base):
            addresses.add(found)
    if not addresses.lastmods:
        raise _stranger(f"{base} has no link to a page: check whether the server wrote it")
    return addresses.sitemap(SitemapKind.LLMS_TXT)


def _stranger(message: str) -> SitemapError:
    return SitemapError(message, SitemapFault.NOT_A_SITEMAP)


def _hrefs(text: str) -> Iterator[str]:
    """Yield the targets of the links in a text, line by line; fenced code has none."""
    fence = ""
    for line in text.splitlines():
        if found := _FENCE(line):
            fence = "" if found[1] == fence else fence or found[1]
        elif not fence:
            if defined := _DEFINITION.match(line):
                yield defined[1].removesuffix(">")
            else:
                yield from _links(line)


def _links(line: str) -> Iterator[str]:
    """Yield the targets of inline links and of addresses in angle brackets, in order."""
    images: list[bool] = []  #: of each open bracket, whether it is that of an image
    code = ""  #: the ticks that end inline code
    for token in _TOKENS.finditer(line):
        word = token[0]
        if word.startswith("`"):
            code = "" if word == code else code or word
        elif code or word.startswith("\\"):
            continue
        elif token[1]:
            yield token[1]
        elif word.endswith("["):
            images.append(word == "![")
        elif word.startswith("]") and images:
            is_image = images.pop()
            target = _TARGET(line, token.end()) if word == "](" else None
            if target is not None and not is_image:
                yield _ESCAPE.sub(r"\1", target[1] or target[2])

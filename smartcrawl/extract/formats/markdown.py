"""Markdown: rendered to HTML, and read like a page."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from smartcrawl.extract.formats.common import (
    MAX_DESCRIPTION,
    MAX_TITLE,
    check_document_text,
    clean_document_text,
    document_too_large,
    given_document_title,
)
from smartcrawl.extract.formats.heading_ids import HeadingIds
from smartcrawl.extract.html import parse_html
from smartcrawl.extract.sections import markup_line
from smartcrawl.extract.sniff import decode_charset
from smartcrawl.model.documents import Document

MAX_MARKDOWN: Final = 2_000_000  #: characters; the renderer takes 3 seconds for each million
_MAX_NESTING: Final = 100  #: quotes and lists within each other; deeper ones are left out

#: YAML between ``---`` or TOML between ``+++`` at the very beginning.
_FRONT: Final = re.compile(
    r"(---|\+\+\+)[ \t]*\n(.{0,65536}?\n)(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL
)
#: Statements of MDX at the beginning of a text.
_IMPORTS: Final = re.compile(r"\A(?:[ \t]*(?:(?:import|export)[ \t{][^\n]*)?\n)+")
_ANY_KEY: Final = re.compile(r"^[\w-]+[ \t]*[:=]", re.MULTILINE)  #: no text between two rules
_KEY: Final = re.compile(
    r"^(title|description|lang|language)[ \t]*[:=][ \t]*(\"[^\"\n]*\"|'[^'\n]*'|[^\n#]*)",
    re.MULTILINE,
)


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a Markdown text: CommonMark with tables and raw HTML.

    Front matter is no text; its title comes before that of the first heading. Imports and exports
    at the beginning of MDX are none either. Headings have the ids that GitHub gives them.

    Raises:
        FormatError: TOO_LARGE beyond ``MAX_MARKDOWN`` characters.

    Source: CommonMark 0.31.
    """
    charset, text = decode_charset(body, content_type, markup=False)
    text = clean_document_text(text)
    if len(text) > MAX_MARKDOWN:
        raise document_too_large(f"the Markdown text has more than {MAX_MARKDOWN:,} characters")
    properties: dict[str, str] = {}
    front = _FRONT.match(text)
    if front and _ANY_KEY.search(front[2]):
        properties = {key: value.strip().strip("\"'") for key, value in _KEY.findall(front[2])}
        text = text[front.end() :]
    text = _IMPORTS.sub("", text) if urlsplit(url).path.lower().endswith(".mdx") else text
    html = _rendered(text)
    if declared := properties.get("lang") or properties.get("language", ""):
        html = f'<html lang="{re.sub(r"[^A-Za-z_-]", "", declared)}">{html}'
    page = parse_html(html.encode(), content_type="text/html; charset=utf-8", url=url)
    check_document_text(len(page.text))
    heading = next((s.heading or s.text for s in page.sections if s.heading or s.text), "")
    given = given_document_title(properties.get("title", ""))
    title = given or markup_line(page.title or heading.partition("\n")[0])
    description = markup_line(properties.get("description", "")) or page.description
    return replace(
        page, title=title[:MAX_TITLE], description=description[:MAX_DESCRIPTION], charset=charset
    )


def _rendered(text: str) -> str:
    """Return a text as HTML, in which headings have ids."""
    renderer = _renderer()
    env: dict[str, object] = {}
    tokens = renderer.parse(text, env)
    ids = HeadingIds()
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            token.attrSet("id", ids.next_id(_heading_text(inline)))
    html: str = renderer.renderer.render(tokens, renderer.options, env)
    return html


def _heading_text(inline: Token) -> str:
    return "".join(one.content for one in inline.children or () if one.type in _SAID)


_SAID: Final = frozenset({"text", "code_inline", "softbreak"})  #: tokens with text of a heading


def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"maxNesting": _MAX_NESTING}).enable("table")

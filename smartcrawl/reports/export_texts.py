"""Pages as the texts of an export: Markdown with front matter, JSON lines, llms.txt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.model.documents import ChunkSize
from smartcrawl.model.markdown import text_as_markdown_line
from smartcrawl.model.redaction import escaped_tags, json_safe_text
from smartcrawl.model.times import iso_time
from smartcrawl.reports.exported_pages import ExportedPage
from smartcrawl.reports.page_markdown import page_as_markdown

#: An address in a link of llms.txt: readers look for the next parenthesis.
_IN_LINK: Final = str.maketrans({"(": "%28", ")": "%29", "<": "%3C", ">": "%3E", " ": "%20"})
_BRACKETS: Final = str.maketrans("[]", "()")
#: Keys that each object of JSON lines has; one of _BY_KIND is added.
_KEYS: Final = frozenset({"id", "source", "url", "title", "language", "lost"})
_BY_KIND: Final = frozenset({"markdown", "sort_order"})


def exported_markdown(page: ExportedPage) -> str:
    """Return a page as Markdown, after front matter (YAML) with its address and title.

    Strings are written as JSON, which is YAML, too.
    """
    document = page.document
    fields = {
        "title": document.title,
        "description": document.description,
        "language": document.language,
        "url": page.url,
        "source": page.source,
        "lastChanged": iso_time(page.last_changed),
        "lost": page.is_lost or None,
    }
    lines = [f"{name}: {_json(value)}" for name, value in fields.items() if value]
    return "\n".join(["---", *lines, "---", "", page_as_markdown(document)])


def exported_page_row(page: ExportedPage) -> dict[str, Any]:
    """Return a page as an object of JSON lines."""
    document = page.document
    return {
        "id": page.id,
        "source": page.source,
        "url": page.url,
        "title": document.title,
        "description": document.description,
        "language": document.language,
        "lost": page.is_lost,
        "lastChanged": iso_time(page.last_changed),
        "sections": [
            {"level": section.level, "heading": section.heading, "text": section.text}
            for section in document.sections
        ],
        "markdown": page_as_markdown(document),
    }


def exported_chunks(page: ExportedPage, size: ChunkSize) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a page as objects of JSON lines, as the view ``documents`` has them."""
    document = page.document
    for number, chunk in enumerate(document_chunks(document, size)):
        yield {
            "id": page.id,
            "source": page.source,
            "url": page.url,
            "title": document.title,
            "language": document.language,
            "lost": page.is_lost,
            "sort_order": number,
            "path": chunk.path,
            "level": chunk.level,
            "types": list(chunk.types),
            "repeated": chunk.repeated,
            "hash": chunk.digest(document.title).hex(),
            "text": chunk.text,
        }


def is_exported_line(line: bytes) -> bool:
    """Whether a line is an object of JSON lines: a page or a chunk.

    >>> is_exported_line(b"a poem\\n"), is_exported_line(b'{"id": "a"}\\n')
    (False, False)
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.keys() >= _KEYS and bool(row.keys() & _BY_KIND)


def exported_listing_page(page: ExportedPage) -> str:
    """Return the line of a page in llms.txt.

    Source: llmstxt.org.
    """
    name = _listed((page.document.title or page.url).translate(_BRACKETS))
    notes = _listed(page.document.description)
    lost = "lost; " if page.is_lost else ""
    after = f": {lost}{notes}".rstrip("; ") if lost or notes else ""
    return f"- [{name}]({page.url.translate(_IN_LINK)}){after}\n"


def exported_listing_head(name: str, summary: str) -> str:
    """Return the beginning of llms.txt: title and summary."""
    return f"# {_listed(name)}\n\n> {_listed(summary)}\n"


def exported_listing_section(name: str) -> str:
    """Return the heading of a section of llms.txt."""
    return f"\n## {_listed(name)}\n\n"


def exported_text_of_page(page: ExportedPage) -> str:
    """Return a page as it is in llms-full.txt: its address, and its Markdown."""
    return f"Source: {page.url}\n\n{page_as_markdown(page.document)}"


def _listed(text: str) -> str:
    """Return text as one line of llms.txt; language models read tag characters in it."""
    return escaped_tags(text_as_markdown_line(text))


def _json(value: object) -> str:
    return json_safe_text(json.dumps(value, ensure_ascii=False))

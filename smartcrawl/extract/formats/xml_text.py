"""XML of any kind: the text of its elements."""

from __future__ import annotations

from typing import Final

from smartcrawl.extract.formats.common import MAX_TEXT, Tokens, document_too_large, parsed_document
from smartcrawl.extract.formats.zipped import (
    Attributes,
    markup_attribute,
    markup_portions,
    walk_markup,
)
from smartcrawl.extract.sniff import decode_charset
from smartcrawl.model.documents import Document

_TITLE: Final = "title"
_MAX_XML: Final = 2 * MAX_TEXT  #: characters, tags included


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of XML: a line for each element, except those within a running text.

    An element belongs to the running text when text, and not a line's end, is beside its tag.
    Attributes and comments are no text, entities of a DTD stay unexpanded. The title is the first
    element of that name.

    Source: XML 1.0, fifth edition.
    """
    charset, text = decode_charset(body, content_type, markup=True)
    if len(text) > _MAX_XML:
        raise document_too_large(f"the XML has more than {_MAX_XML:,} characters")
    elements = _Elements()
    xml = text.lstrip().encode()
    walk_markup(elements, markup_portions(xml), part="the XML", charset="utf-8", doctype=True)
    return parsed_document(
        url=url,
        text=elements.tokens.sections(),
        title=elements.title,
        declared=elements.language,
        charset=charset,
    )


class _Elements:
    """The texts between tags."""

    def __init__(self) -> None:
        self.tokens = Tokens()
        self.title = ""
        self.language = ""
        self._pending: list[str] = []
        self._title: int | None = None  # first token of an open title

    def start(self, name: str, attributes: Attributes) -> None:
        self._flush()
        self.language = self.language or markup_attribute(attributes, "lang")
        if name == _TITLE and not self.title:
            self._title = len(self.tokens)

    def end(self, name: str) -> None:
        self._flush()
        if name == _TITLE and self._title is not None:
            self.title, self._title = self.tokens.since(self._title), None

    def text(self, text: str) -> None:
        self._pending.append(text)

    def _flush(self) -> None:
        """Take the text before a tag; an empty one, or one that ends a line, separates elements."""
        text = "".join(self._pending)
        self._pending.clear()
        if text and (text.strip() or "\n" not in text):
            self.tokens.text(text)
        else:
            self.tokens.end_line()

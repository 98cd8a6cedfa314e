"""The lines of a document, each with the headings above it."""

from __future__ import annotations

from smartcrawl.model.documents import Document
from smartcrawl.rules.changes import TextLine


def document_text_lines(document: Document) -> list[TextLine]:
    """Return the lines of a document in reading order, headings among them, without empty ones.

    >>> from smartcrawl.model.documents import Section
    >>> lines = document_text_lines(Document(sections=(Section(1, "A", "x"), Section(2, "B", "y"))))
    >>> [tuple(line) for line in lines]
    [('A', 'A'), ('A', 'x'), ('A > B', 'B'), ('A > B', 'y')]
    """
    lines: list[TextLine] = []
    above: list[tuple[int, str]] = []
    for section in document.sections:
        while above and above[-1][0] >= section.level:
            above.pop()
        if section.heading:
            above.append((section.level, section.heading))
        path = " > ".join(name for _, name in above)
        texts = (section.heading, *section.text.split("\n"))
        lines += (TextLine(path, text) for text in texts if text.strip())
    return lines

"""The parts of one page's markup."""

from __future__ import annotations

from dataclasses import dataclass, field

from smartcrawl.extract.blocks import TokenBlock
from smartcrawl.extract.links import Reference
from smartcrawl.extract.sections import Heading, Span
from smartcrawl.model.documents import Image


@dataclass(slots=True)
class SeenMarkup:
    """The parts of a page's markup, before the choice of the text that counts.

    The text is a list of tokens with marks for lines, cells and rows. Boilerplate, ``<main>`` and
    ``<article>`` are spans of these tokens.
    """

    tokens: list[str] = field(default_factory=list)
    headings: list[Heading] = field(default_factory=list)
    blocks: list[TokenBlock] = field(default_factory=list)  #: code, tables and lists
    boilerplate: list[Span] = field(default_factory=list)
    mains: list[Span] = field(default_factory=list)
    articles: list[Span] = field(default_factory=list)
    kept: list[Span] = field(default_factory=list)
    dropped: list[Span] = field(default_factory=list)
    references: dict[str, Reference] = field(default_factory=dict)  #: by href, without fragment
    cut: bool = False  #: whether there are more references than are kept
    images: dict[str, Image] = field(default_factory=dict)  #: by source
    titles: dict[str, str] = field(default_factory=dict)  #: "title", "og:title"
    descriptions: dict[str, str] = field(default_factory=dict)  #: "description", "og:description"
    keywords: str = ""
    base: str | None = None
    canonical: str | None = None
    refresh: str | None = None  #: content of the first ``<meta http-equiv=refresh>``
    language: str = ""
    noindex: bool = False
    nofollow: bool = False

    @property
    def description(self) -> str:
        """The description of the page, else that for previews of it."""
        return self.descriptions.get("description") or self.descriptions.get("og:description", "")

    def clip(self, end: int) -> None:
        """Drop headings, blocks and regions from a token on; the links of a page are all kept."""
        self.headings = [
            heading._replace(end=min(heading.end, end))
            for heading in self.headings
            if heading.start < end
        ]
        self.blocks = [
            block._replace(end=min(block.end, end)) for block in self.blocks if block.start < end
        ]
        for spans in (self.boilerplate, self.mains, self.articles, self.kept, self.dropped):
            spans[:] = [(start, min(stop, end)) for start, stop in spans if start < end]

"""The structured results of the tools, whose schemas clients get.

``id``, ``title``, ``url``, ``text`` and ``metadata`` are the names that clients know from other
servers that search and fetch.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Answer(BaseModel):
    """A result: it has all of its keys, and no other one."""

    model_config = ConfigDict(extra="forbid")


class McpChunk(_Answer):
    """A part of a page that answers a query."""

    number: int = Field(description="Its place in its page, from 0")
    path: list[str] = Field(description="The headings above it, outermost first")
    highlight: str = Field(
        description="The text around the words found", examples=["a <em>fuse</em> of 2 A"]
    )
    page: int | None = Field(description="The page of a PDF, from 1; null: it is none")
    section: str = Field(
        description="The id of the section or name in the page; empty: it has none",
        examples=["replacing-a-fuse"],
    )
    link: str = Field(
        description="The address of this place", examples=["https://a.example/b#replacing-a-fuse"]
    )


class McpHit(_Answer):
    """A page that answers a query, with the part of it that does so best."""

    id: str = Field(description="For fetch", examples=["url_k7gxn3"])
    title: str
    url: str = Field(examples=["https://docs.example.com/guide/fuses.html"])
    link: str = Field(
        description="The address to cite: of the section or the page of a PDF, else ``url``",
        examples=["https://docs.example.com/manual.pdf#page=214"],
    )
    text: str = Field(description="The part of the page that answers best, as the page has it")
    path: list[str] = Field(description="The headings above this part, outermost first")
    chunks: list[McpChunk] = Field(description="The parts that answer best, at most three")
    source: str = Field(description="As of list_sources", examples=["docs.example.com"])
    language: str = Field(description="ISO 639-1, or empty if it is not known", examples=["en"])
    date: str | None = Field(description="When it was published, else last changed, in UTC")
    author: str = Field(description="Where the page says it, or empty")
    lost: bool = Field(description="Its last visit failed; the content is of an earlier one")
    number: int = Field(description="Of the resource smartcrawl://page/{number}", examples=[12])


class McpFacetValue(_Answer):
    """A value of a facet."""

    value: str = Field(description="As the filter of a query takes it", examples=["pdf"])
    count: int = Field(description="Pages that have it")


class McpFacets(_Answer):
    """How many pages of a whole answer have each value, for filters such as type:pdf."""

    total: int = Field(description="Pages of the answer, 10,000 at most")
    complete: bool = Field(description="Whether all were counted; false: 10,000 of them")
    source: list[McpFacetValue] = Field(description="For in:SOURCE")
    language: list[McpFacetValue] = Field(description="For language:LL")
    type: list[McpFacetValue] = Field(description="For type:TYPE")
    date: list[McpFacetValue] = Field(
        description="For after:DATE and before:DATE: years; months of one year; days of one month"
    )


class McpHits(_Answer):
    """Pages that answer a query, best first."""

    results: list[McpHit]
    meant: str | None = Field(
        description="The query that was answered instead, if a word of it was misspelt"
    )
    note: str | None = Field(
        description="Why meaning did not count, or not for all pages; why they are not reranked"
    )
    next_offset: int | None = Field(description="The offset of the next pages; null: no more")
    facets: McpFacets | None = Field(description="Counts of the whole answer; null: not asked for")


class McpPageFacts(_Answer):
    """The facts about a page beside its text."""

    source: str
    language: str = Field(description="ISO 639-1, or empty if it is not known")
    last_checked: str | None = Field(description="Its last visit, in UTC")
    last_changed: str | None = Field(description="When its content was last seen to differ")
    published: str | None = Field(description="Where the page says it, in UTC")
    author: str = Field(description="Where the page says it, or empty")
    lost: bool = Field(description="Its last visit failed; the content is of an earlier one")
    number: int = Field(description="Of the resource smartcrawl://page/{number}")
    characters: int = Field(description="Of the whole text")


class McpPage(_Answer):
    """A page, or one part of a long one."""

    id: str
    title: str
    url: str
    text: str = Field(description="Markdown, made of the stored page")
    metadata: McpPageFacts
    next_cursor: str | None = Field(description="The cursor of the next part; null: no more")


class McpCompleteRun(_Answer):
    """The last run that saw its whole source."""

    run: int
    finished_at: str | None


class McpSource(_Answer):
    """A source that was crawled."""

    name: str = Field(examples=["docs.example.com"])
    kind: str = Field(examples=["site"])
    pages: int = Field(description="All known pages")
    stored: int = Field(description="Pages with stored content, which can be fetched")
    lost: int = Field(description="Stored pages that answered with an error about the page")
    due: int = Field(description="Pages whose next visit has come")
    last_complete_run: McpCompleteRun | None
    visibility: str = Field(description="public, or private: who reads it over HTTP")


class McpSources(_Answer):
    """The sources that were crawled."""

    sources: list[McpSource]


class McpChange(_Answer):
    """A change of a page, or lines that many pages share."""

    kind: str = Field(
        description="new, modified, moved, lost, removed or came back; shared: lines that changed"
        " on many pages at once, which count for no page"
    )
    source: str
    run: int
    at: str = Field(description="When, in UTC")
    id: str | None = Field(description="For fetch; null: it is not stored, or many pages share it")
    url: str | None
    title: str | None
    former_url: str | None = Field(description="Of a moved page")
    why: str | None = Field(description="Of a page that was lost, removed or moved")
    pages: int
    share: float | None = Field(description="Changed words, of those of both texts; null: unknown")
    words_added: int | None
    words_removed: int | None
    headings: list[str] = Field(description="Below which it changed, with those above each")
    lines: list[str] = Field(description="The first and last changed lines, after + or -")
    more_lines: int = Field(description="Changed lines that are left out")


class McpChanges(_Answer):
    """What changed, newest run first."""

    changes: list[McpChange]
    next_cursor: str | None = Field(description="The cursor of the next part; null: no more")


class McpStartedRun(_Answer):
    """A crawl that was started."""

    source: str
    run: int | None = Field(description="Its number; null: it has not opened its run yet")
    pid: int = Field(description="Its process")
    log: str = Field(description="Its log, in the folder logs of the data folder")

"""The answers of the routes, as the OpenAPI describes them; their base and their times.

Routes build their answers without these models, and tests compare both: so a model refuses keys
that it does not have. A client must not, because a version may add keys. The description therefore
permits them.

The routes that read data do not even check with them: to validate and encode a page of rows takes
FastAPI ten times as long as ``json``. Tests compare both.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field


def _with_further_keys(schema: dict[str, Any]) -> None:
    schema.pop("additionalProperties", None)


class Answer(BaseModel):
    """An answer: it has all of its keys, and no other one."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_with_further_keys)


#: A time in UTC, as in ``2024-01-20T10:00:00Z``.
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


EXAMPLE_HASH: Final = "2bfc49fca0d1d05849628f89fa0faa70b056aeade1c47a5a062da30eafe5421d"


class Headers(Answer):
    """Headers of the answer that the stored body came with."""

    last_modified: str | None = Field(alias="last-modified", examples=["2024-01-19T15:00:00Z"])
    etag: str | None = Field(examples=['"abc123"'])
    content_encoding: str | None = Field(alias="content-encoding", examples=["gzip"])


class Summary(Answer):
    """A document in a list."""

    url: str = Field(examples=["https://example.com/article/123"])
    url_hash: str = Field(examples=[EXAMPLE_HASH])
    crawled_at: Time | None = Field(examples=["2024-01-20T10:30:00Z"])
    content_length: int | None = Field(description="Bytes on the wire", examples=[45_678])


class Document(Summary):
    """A document with all that is known about it."""

    http_status: int | None = Field(examples=[200])
    content_type: str | None = Field(examples=["text/html"])
    headers: Headers
    content_hash: str | None = Field(examples=[f"sha256:{EXAMPLE_HASH}"])
    storage_path: str | None = Field(
        description="Where the body is kept", examples=["s3://crawler-data/5f/70bf18.html.gz"]
    )


class DocumentPagination(Answer):
    """The place of a page in its list."""

    total: int = Field(description="Documents of the list, as of the last 10 s", examples=[5_000])
    offset: int = Field(examples=[0])
    limit: int = Field(examples=[100])
    next_cursor: str | None = Field(description="Null on the last page")


class Documents(Answer):
    """A page of a list of documents, newest visit first."""

    documents: list[Summary]
    pagination: DocumentPagination


class FrontierStats(Answer):
    """Addresses that wait for a visit."""

    total_urls: int = Field(examples=[12_345_678])
    by_priority: dict[str, int] = Field(examples=[{"5": 12_345_678}])
    by_domain: dict[str, int] = Field(
        description="The 1,000 hosts with most of them", examples=[{"example.com": 45_000}]
    )
    ready_to_crawl: int = Field(
        description="Due, or reached by an open run, at hosts that may be asked", examples=[234_567]
    )
    delayed: int = Field(examples=[12_111_111])


class DueDay(Answer):
    """A day, in UTC."""

    date: str = Field(examples=["2024-01-20"])
    count: int = Field(description="Addresses that become due then", examples=[1_200])


class FrontierDue(Answer):
    """Addresses that wait for a visit, by the days on which it is due."""

    at: Time = Field(description="The time of these figures")
    due: int = Field(description="Due by now", examples=[234_567])
    days: list[DueDay] = Field(description="Today, and the 13 days after it")
    later: int = Field(description="Due after these days", examples=[12_345])


class PostedAddress(Answer):
    """The fate of one posted address."""

    url: str = Field(description="As it is requested", examples=["https://example.com/page1"])
    result: Literal["added", "duplicate", "blocked"]
    sources: list[str] = Field(
        description="Sources that it joined, or the one that has it", examples=[["docs"]]
    )
    reason: str = Field(examples=["the next run of docs requests it"])


class PostedCounts(Answer):
    """Counts of posted addresses, whose sum is the number of those sent, and the fate of each."""

    added: int = Field(description="The next run of their source requests them", examples=[1])
    duplicates: int = Field(description="Known before, or sent twice", examples=[0])
    blocked: int = Field(
        description="Refused by filters, robots.txt, a blocked host, or the guard of addresses",
        examples=[0],
    )
    urls: list[PostedAddress] = Field(description="In the order in which they were sent")


class AgentRules(Answer):
    """The rules of a robots.txt for one agent."""

    allow: list[str] = Field(examples=[["/public/"]])
    disallow: list[str] = Field(examples=[["/private/", "/admin/"]])
    crawl_delay: float | None = Field(description="Seconds, as written", examples=[1])


class RobotsRules(Answer):
    """The contents of a robots.txt."""

    user_agents: dict[str, AgentRules]
    sitemaps: list[str] = Field(examples=[["https://example.com/sitemap.xml"]])


class Robots(Answer):
    """The robots.txt of a host."""

    domain: str = Field(examples=["example.com"])
    fetched_at: Time = Field(examples=["2024-01-20T10:00:00Z"])
    expires_at: Time | None = Field(
        description="Null if ROBOTS_TTL_SECONDS is 0", examples=["2024-01-21T10:00:00Z"]
    )
    rules: RobotsRules


class ItemCounts(Answer):
    """Numbers of items by their status."""

    Pending: int = Field(examples=[12])
    Crawled: int = Field(examples=[3])
    Indexed: int = Field(examples=[2_044])
    Error: int = Field(examples=[5])
    OutOfScope: int = Field(examples=[81])
    Gone: int = Field(examples=[7])


class SearchStatus(Answer):
    """The items of all sources together."""

    items: ItemCounts
    indexed: int = Field(description="Items in the index", examples=[2_044])
    changeRate: float | None = Field(  # noqa: N815  # as the names of E-13 to E-16
        description="Share of visits to stored pages in the last ten runs that found a change;"
        " null without any",
        examples=[0.0312],
    )
    errorRate: float | None = Field(  # noqa: N815  # likewise
        description="Share of pages whose last visit failed; null without any", examples=[0.0024]
    )
    lost: int = Field(description="Stored pages that were not found lately", examples=[4])
    orphans: int = Field(
        description="Stored pages that the last complete run did not reach", examples=[2]
    )


class Image(Answer):
    """An image of a page."""

    id: str = Field(examples=["image_k7gxn3"])
    parentPageId: str  # noqa: N815  # as the names of E-13 to E-16
    parentPageUrl: str  # noqa: N815  # likewise
    source: str = Field(description="Address of the page that shows it")
    src: str = Field(examples=["https://example.com/lamp.png"])
    alt: str
    width: int | None
    height: int | None
    context: str = Field(description="Text around it")
    matched: bool = Field(description="Whether it has words of the query")


class FoundChunk(Answer):
    """A chunk of a page that answers a query."""

    number: int = Field(description="Its place in its page, from 0")
    path: str = Field(description="The headings above it", examples=["Guide > Lamps"])
    highlight: str = Field(examples=["a <em>lantern</em> for the harbour"])
    page: int | None = Field(default=None, description="Of a PDF only: its page, from 1")
    section: str | None = Field(
        default=None,
        description="The id of the section or name that answers best, where it has one",
        examples=["replacing-a-fuse"],
    )
    link: str | None = Field(
        default=None,
        description="The address of this section, or of this page of a PDF",
        examples=["https://example.com/manual.pdf#page=214", "https://example.com/b#fuse"],
    )


class FoundPage(Answer):
    """A page that answers a query."""

    id: str = Field(examples=["url_k7gxn3"])
    documentId: str  # noqa: N815  # likewise
    url: str = Field(examples=["https://example.com/article/123"])
    source: str = Field(examples=["example.com"])
    sources: list[str] = Field(description="All sources that have it")
    title: str
    headings: str = Field(description="Headings above the text that was found")
    snippet: str = Field(examples=["a <em>lantern</em> for the harbour"])
    chunks: list[FoundChunk] = Field(description="At most three, the best first")
    score: float = Field(description="Greater is better")
    language: str = Field(examples=["en"])
    description: str
    lost: bool = Field(description="Its last visit failed; the content is of an earlier one")
    lastChecked: Time | None  # noqa: N815  # likewise
    lastChanged: Time | None  # noqa: N815  # likewise
    published: Time | None = Field(description="Where the page says it")
    author: str = Field(description="Where the page says it, or empty")
    date: Time | None = Field(description="When it was published, else last changed")
    images: list[Image] = Field(default=[], description="With nestImages=true only")


class Window(Answer):
    """The place of a page in its list."""

    offset: int = Field(examples=[0])
    limit: int = Field(examples=[10])


class FacetValue(Answer):
    """A value of a facet."""

    value: str = Field(description="As the filter of a query takes it", examples=["pdf"])
    count: int = Field(description="Pages that have it", examples=[12])


class SearchFacets(Answer):
    """How many pages of a whole answer have each value."""

    total: int = Field(description="Pages of the answer, 10,000 at most", examples=[40])
    complete: bool = Field(description="Whether all were counted; false: 10,000 of them")
    source: list[FacetValue] = Field(description="Most pages first, as language and type")
    language: list[FacetValue]
    type: list[FacetValue]
    date: list[FacetValue] = Field(
        description="The latest first: years; months of one year; days of one month"
    )


class Hits(Answer):
    """Pages that answer a query, best first."""

    hits: list[FoundPage]
    meant: str | None = Field(
        description="The query that was answered instead, if a word of it was misspelt"
    )
    note: str | None = Field(
        description="Why meaning did not count, or not for all pages; why they are not reranked"
    )
    pagination: Window
    facets: SearchFacets | None = Field(default=None, description="With facets=1 only")


class AddedItem(Answer):
    """An address that was added."""

    id: str = Field(examples=["url_k7gxn3"])
    status: str = Field(description="Pending, unless it was known", examples=["Pending"])
    reindexGeneration: int = Field(examples=[0])  # noqa: N815  # likewise


class ReindexedItem(Answer):
    """An item that will be indexed anew."""

    id: str = Field(examples=["url_k7gxn3"])
    reindexRequested: bool = Field(examples=[True])  # noqa: N815  # likewise
    reindexGeneration: int = Field(examples=[1])  # noqa: N815  # likewise


class QueuedItems(Answer):
    """The items that will be visited again."""

    queued: int = Field(examples=[2_044])


class IgnoredAddress(Answer):
    """An address of a notice that does not count."""

    url: str = Field(description="As it was sent", examples=["https://www.example.com/"])
    reason: Literal["invalid", "other_host", "outside_folder", "unknown", "full"] = Field(
        description="unknown: no source has it, or may take it; full: too many new ones wait",
        examples=["other_host"],
    )


class NoticeAnswer(Answer):
    """The effect of a notice of IndexNow."""

    verified: bool = Field(description="False: the key is still being checked", examples=[True])
    due: int = Field(description="Addresses that are due now", examples=[1])
    offered: int = Field(
        description="New addresses that the next run of their source requests", examples=[0]
    )
    ignored: list[IgnoredAddress]


class HookAnswer(Answer):
    """The effect of a notice to the hook of a source."""

    source: str = Field(examples=["docs"])
    whole: bool = Field(description="Whether all of the source is due", examples=[False])
    due: int = Field(description="Stored pages that are due by this notice", examples=[2])


EXAMPLE_KEY: Final = "0b5d9a6c1e2f"


class KeyHead(Answer):
    """A key without its text, of which the registry has a hash alone."""

    key_id: str = Field(examples=[EXAMPLE_KEY])
    name: str = Field(examples=["grafana"])
    scope: Literal["search", "read", "operate", "admin"]
    sources: list[str] | None = Field(
        description="Those that it reads; null: the public ones, with the scope admin all",
        examples=[["docs"]],
    )
    created_at: Time = Field(examples=["2024-01-20T10:00:00Z"])
    expires_at: Time | None = Field(description="Null: it does not")
    revoked_at: Time | None = Field(description="Null: it was not")
    counts: bool = Field(description="Whether it is neither revoked nor expired")


class NewKey(KeyHead):
    """A key that was made."""

    key: str | None = Field(
        description="Its text, which cannot be had again; null where the same Idempotency-Key made"
        " it before",
        examples=["sc_0b5d9a6c1e2f_…"],
    )


class Keys(Answer):
    """All keys, oldest first, revoked and expired ones too."""

    keys: list[KeyHead]

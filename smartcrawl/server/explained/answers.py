"""The answers of the routes that explain, as the OpenAPI describes them; tests compare both."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from smartcrawl.server.answers import Answer, Time

#: Pages whose links are read to find those that lead to a record.
MOST_LINKS_READ: Final = 200_000


class LinksIn(Answer):
    """The pages that lead to a record."""

    count: int = Field(examples=[3])
    shown: list[dict[str, Any]] = Field(
        description="The first 20, each with `no` and `url`",
        examples=[[{"no": 3, "url": "https://docs.example.com/"}]],
    )
    whole: bool = Field(description=f"Whether all pages were read: at most {MOST_LINKS_READ:,} are")


class RecordStory(Answer):
    """The story of a record; other keys are those of a record of ``why --format json``."""

    model_config = ConfigDict(extra="allow")

    no: int = Field(description="Its number, which never changes", examples=[17])
    sentence: str = Field(
        examples=["Stored; last visit 2 h ago answered 304; next visit in the next run."]
    )
    record: dict[str, Any] = Field(description="As of `smartcrawl registry --format json`")
    standing: Literal["bare", "links", "held"] = Field(
        description="What is stored: nothing, its links, or its content"
    )
    decision: dict[str, Any] = Field(description="The rule that decided last, in words")
    history: list[dict[str, Any]] = Field(description="Its events, oldest first")
    removal: list[dict[str, Any]] = Field(description="What would remove it, and when")
    linksIn: LinksIn | None = Field(  # noqa: N815  # as the keys of why
        description="Null unless `links_in=true`"
    )


class RecordHead(Answer):
    """A record of an address."""

    no: int = Field(examples=[17])
    source: str = Field(examples=["docs"])
    url: str = Field(examples=["https://docs.example.com/guide"])
    sentence: str


class NearMiss(Answer):
    """A record whose address differs in scheme, slash, query or www. only."""

    no: int = Field(examples=[17])
    source: str = Field(examples=["docs"])
    url: str = Field(examples=["https://docs.example.com/guide/"])


class RefusedAddress(Answer):
    """A source that leaves an address out."""

    source: str = Field(examples=["docs"])
    why: str = Field(examples=["excluded_patterns has /private/"])


class WaitingAddress(Answer):
    """A source whose next run requests an address."""

    source: str = Field(examples=["docs"])
    at: Time = Field(description="When it was posted")
    priority: int = Field(examples=[5])


class AddressStory(Answer):
    """All that is known of an address."""

    url: str = Field(examples=["https://docs.example.com/guide"])
    id: str = Field(examples=["url_k7gxn3"])
    sentence: str = Field(examples=["Not known. No source has it in its scope."])
    records: list[RecordHead] = Field(description="One for each source that has it")
    posted: list[WaitingAddress]
    inScopeOf: list[str] = Field(  # noqa: N815  # likewise
        description="Of an unknown address: the sources whose scope has it"
    )
    listedBy: list[str] = Field(  # noqa: N815  # likewise
        description="Those of them that find it by a listing only"
    )
    refusedBy: list[RefusedAddress] = Field(  # noqa: N815  # likewise
        description="Of an unknown address: the sources that would leave it out"
    )
    nearMisses: list[NearMiss] = Field(  # noqa: N815  # likewise
        description="Of an unknown address: records that may be meant"
    )

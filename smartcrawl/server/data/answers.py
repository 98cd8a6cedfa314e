"""The answers of the routes that read data, as the OpenAPI describes them.

The routes build them without these models: to validate and encode a page of rows takes FastAPI ten
times as long as ``json``. Tests compare both.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

EXAMPLE_HASH: Final = "2bfc49fca0d1d05849628f89fa0faa70b056aeade1c47a5a062da30eafe5421d"


class Answer(BaseModel):
    """An answer: it has all of its keys, and no other one."""

    model_config = ConfigDict(extra="forbid")


class Headers(Answer):
    """Headers of the answer that the stored body came with."""

    last_modified: str | None = Field(alias="last-modified", examples=["2024-01-19T15:00:00Z"])
    etag: str | None = Field(examples=['"abc123"'])
    content_encoding: str | None = Field(alias="content-encoding", examples=["gzip"])


class Summary(Answer):
    """A document in a list."""

    url: str = Field(examples=["https://example.com/article/123"])
    url_hash: str = Field(examples=[EXAMPLE_HASH])
    crawled_at: str | None = Field(examples=["2024-01-20T10:30:00Z"])
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


class Pagination(Answer):
    """The place of a page in its list."""

    total: int = Field(description="Documents of the list, as of the last 10 s", examples=[5_000])
    offset: int = Field(examples=[0])
    limit: int = Field(examples=[100])
    next_cursor: str | None = Field(description="Null on the last page")


class Documents(Answer):
    """A page of a list of documents, newest visit first."""

    documents: list[Summary]
    pagination: Pagination

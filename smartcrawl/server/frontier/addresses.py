"""The body of a request that posts addresses, read strictly (R2-33, R2-35).

No message repeats an address, because it may contain a secret: its position names it.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field

from smartcrawl.model.json_integer import Between, JsonInteger
from smartcrawl.rules.model import PRIORITY
from smartcrawl.server.data.queries import first_second_of_parameter
from smartcrawl.server.errors import ApiError
from smartcrawl.sources.jobs import declared_job_address

MOST: Final = 10_000  #: addresses of a request
#: The example of R2-33.
_EXAMPLE: Final[dict[str, Any]] = {
    "urls": [
        {
            "url": "https://example.com/article/123",
            "priority": 1,
            "metadata": {"source": "sitemap", "discovered_at": "2024-01-20T10:00:00Z"},
        }
    ]
}


def _moment(text: str) -> str:
    """Return a date or a time as it is.

    Raises:
        ValueError: it is neither.
    """
    try:
        first_second_of_parameter(text, "discovered_at")
    except ApiError as error:
        raise ValueError("must be a time such as 2024-01-20T10:00:00Z, or a date") from error
    return text


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class UrlMetadata(_Part):
    """Place and time at which the client met an address: checked, and not kept (ADR 60)."""

    source: str = Field(default="", max_length=255, examples=["sitemap"])
    discovered_at: Annotated[str, AfterValidator(_moment)] = Field(
        default="1970-01-01", max_length=40, examples=["2024-01-20T10:00:00Z"]
    )


class PostedUrl(_Part):
    """One address; ``url`` becomes its request URL."""

    url: Annotated[str, AfterValidator(declared_job_address)] = Field(
        examples=["https://example.com/article/123"]
    )
    priority: Annotated[JsonInteger, Between(1, 10)] = PRIORITY
    metadata: UrlMetadata = UrlMetadata()


class PostedUrls(_Part):
    """The addresses of one request."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    urls: Annotated[list[PostedUrl], FailFast()] = Field(min_length=1, max_length=MOST)

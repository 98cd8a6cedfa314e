"""The body of a request that posts addresses, read strictly (R2-33, R2-35).

No message repeats an address, because it may contain a secret: its position names it.
"""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, ValidationError
from pydantic_core import ErrorDetails

from smartcrawl.model.json_integer import JsonInteger
from smartcrawl.rules.model import PRIORITY
from smartcrawl.server.data.queries import first_second_of_parameter
from smartcrawl.server.errors import ApiError
from smartcrawl.sources.jobs.definition import declared_job_address
from smartcrawl.sources.jobs.errors import INVALID_INPUT, INVALID_URL, JobError

MOST: Final = 10_000  #: addresses of a request
_HIGHEST, _LOWEST = 1, 10
#: Known keys by the depth of their object in the body.
_KEYS: Final = {0: "urls", 2: "url, priority, metadata", 3: "source, discovered_at"}
_TYPES: Final = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "list_type": "a list",
    "model_type": "an object",
    "model_attributes_type": "an object",
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
    priority: JsonInteger = Field(default=PRIORITY, ge=_HIGHEST, le=_LOWEST)
    metadata: UrlMetadata = UrlMetadata()


class PostedUrls(_Part):
    """The addresses of one request."""

    urls: Annotated[list[PostedUrl], FailFast()] = Field(min_length=1, max_length=MOST)

    @classmethod
    def checked(cls, body: object) -> Self:
        """Return the addresses in the body of a request.

        Raises:
            JobError: with the code, the field and the reason of the first problem.
        """
        if not isinstance(body, dict):
            raise JobError(INVALID_INPUT, reason="the body must be a JSON object")
        try:
            return cls.model_validate(body)
        except ValidationError as error:
            raise _refusal(error.errors()[0]) from None  # its text would repeat the request


def _refusal(found: ErrorDetails) -> JobError:
    """Return pydantic's error with the position of the address."""
    *above, last = found["loc"]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in above)
    place, name = place.removeprefix("."), str(last)
    if found["type"] == "extra_forbidden":
        reason = f"{place or 'the body'} has an unknown key; known are {_KEYS[len(above)]}"
        field = next((part for part in reversed(above) if isinstance(part, str)), None)
        return JobError(INVALID_INPUT, field=field, reason=reason)
    if isinstance(last, int):
        place, name = f"{place}[{last}]", str(above[-1])
    else:
        place = f"{place}.{last}".removeprefix(".")
    code = INVALID_URL if name == "url" and found["type"] != "missing" else INVALID_INPUT
    return JobError(code, field=name, reason=f"{place} {_demand(found)}")


def _demand(found: ErrorDetails) -> str:
    """Return the rest of a sentence about a field, such as *must be a text*."""
    kind = found["type"]
    match kind:
        case "value_error":
            return str(found["ctx"]["error"])
        case "missing":
            return "is missing"
        case "greater_than_equal" | "less_than_equal":
            return f"must be between {_HIGHEST} and {_LOWEST}"
        case "too_short":
            return "must have at least one entry"
        case "too_long":
            return f"must have at most {found['ctx']['max_length']:,} entries"
        case "string_too_long":
            return f"must have at most {found['ctx']['max_length']} characters"
        case _:
            return f"must be {_TYPES[kind]}"

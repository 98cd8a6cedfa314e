"""The base of all answers of the API, and their times, as the OpenAPI describes them.

Routes build their answers without these models, and tests compare both: so a model refuses keys
that it does not have. A client must not, because a version may add keys. The description therefore
permits them.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


def _with_further_keys(schema: dict[str, Any]) -> None:
    schema.pop("additionalProperties", None)


class Answer(BaseModel):
    """An answer: it has all of its keys, and no other one."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_with_further_keys)


#: A time in UTC, as in ``2024-01-20T10:00:00Z``.
Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]

"""Whole numbers in JSON, as its schemas read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema


def json_integer(value: object) -> object:
    """Return a whole number as an integer, and any other value as it is.

    JSON Schema takes 4.0 for an integer, and some programs write their integers so.

    >>> json_integer(4.0), json_integer(4.5), json_integer("4"), json_integer(True)
    (4, 4.5, '4', True)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: The type of a field that takes one.
JsonInteger = Annotated[int, BeforeValidator(json_integer)]


@dataclass(frozen=True, slots=True)
class Between:
    """The bounds of a number; an error names both."""

    least: int
    most: int

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of a number with the check."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the description of a number with its bounds."""
        return handler(schema) | {"minimum": self.least, "maximum": self.most}

    def _checked(self, value: int) -> int:
        if not self.least <= value <= self.most:
            raise ValueError(f"must be between {self.least} and {self.most}")
        return value

"""Whole numbers in JSON, as its schemas read them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator


def json_integer(value: object) -> object:
    """Return a whole number as an integer, and any other value as it is.

    JSON Schema takes 4.0 for an integer, and some programs write their integers so.

    >>> json_integer(4.0), json_integer(4.5), json_integer("4"), json_integer(True)
    (4, 4.5, '4', True)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: The type of a field that takes one.
JsonInteger = Annotated[int, BeforeValidator(json_integer)]

"""What FastAPI makes of an endpoint is made once for all applications of this process.

Nearly every test has an application of its own, and half of the time to make one goes into the
signatures and types of its endpoints, which are the same in each: both are values that nobody
changes.
"""

import inspect
from collections.abc import Callable
from typing import Any

from fastapi._compat.v2 import ModelField, asdict
from fastapi.dependencies import utils


def share() -> None:
    """Let applications share these parts from now on."""
    ModelField.__post_init__ = _once_for_equal_fields(ModelField.__post_init__)  # type: ignore[method-assign]
    utils.get_typed_signature = _once_for_equal_functions(utils.get_typed_signature)


def _once_for_equal_fields(make: Callable[[ModelField], None]) -> Callable[[ModelField], None]:
    known: dict[str, Any] = {}

    def post_init(field: ModelField) -> None:
        key = repr((asdict(field.field_info), field.config))
        if key in known:
            field._type_adapter = known[key]
        else:
            make(field)
            known[key] = field._type_adapter

    return post_init


def _once_for_equal_functions(
    read: Callable[[Callable[..., Any]], inspect.Signature],
) -> Callable[[Callable[..., Any]], inspect.Signature]:
    known: dict[object, inspect.Signature] = {}

    def signature(call: Callable[..., Any]) -> inspect.Signature:
        if not inspect.isfunction(call):
            return read(call)
        types = [each if isinstance(each, str) else id(each) for each in _annotations(call)]
        key = call.__code__, repr((call.__defaults__, call.__kwdefaults__, types))
        if key not in known:
            known[key] = read(call)
        return known[key]

    return signature


def _annotations(call: Callable[..., Any]) -> list[object]:
    return [*call.__annotations__, *call.__annotations__.values()]

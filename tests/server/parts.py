"""What FastAPI makes of an endpoint is made once for all applications of this process.

Nearly every test has an application of its own, and most of the time to make one goes into the
routes of its endpoints: signatures, types, parameters and answers are the same in each, and are
values that no application changes. Only the function that a route calls is its application's own.
"""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakSet

from fastapi import routing
from fastapi._compat.v2 import ModelField, asdict
from fastapi.dependencies import utils
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from smartcrawl.server.pages import pages
from smartcrawl.server.stores import Stores


def share() -> None:
    """Let applications share these parts from now on."""
    ModelField.__post_init__ = _once_for_equal_fields(ModelField.__post_init__)  # type: ignore[method-assign]
    utils.get_typed_signature = _once_for_equal_functions(utils.get_typed_signature)
    routing._populate_api_route_state = _once_for_equal_routes(routing._populate_api_route_state)
    pages.Environment = partial(Environment, bytecode_cache=_Templates())  # type: ignore[misc, assignment]
    Stores.__init__ = _noting(Stores.__init__)  # type: ignore[method-assign]


_made: WeakSet[Stores] = WeakSet()


def close_connections() -> None:
    """Close the idle connections of all applications.

    FastAPI keeps the last 4,096 endpoints that it looked at, and so their applications: some
    hundred tests would have no descriptor left below 1,024.
    """
    for stores in list(_made):
        stores.close()
    _made.clear()


def _noting(make: Callable[..., None]) -> Callable[..., None]:
    def made(self: Stores, *args: Any, **given: Any) -> None:
        make(self, *args, **given)
        _made.add(self)

    return made


class _Templates(BytecodeCache):
    """What templates were compiled to."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._known.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._known[bucket.key, bucket.checksum] = bucket.code


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
        key = _kind(call)
        if key not in known:
            known[key] = read(call)
        return known[key]

    return signature


def _once_for_equal_routes(fill: Callable[..., None]) -> Callable[..., None]:
    known: dict[object, tuple[dict[str, Any], object]] = {}

    def filled(route: Any, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        if not inspect.isfunction(endpoint) or given["dependency_overrides_provider"] is not None:
            fill(route, path, endpoint, **given)
            return
        key = path, _kind(endpoint), id(given["response_model"]), repr(given)
        if key not in known:
            before = set(vars(route))
            fill(route, path, endpoint, **given)
            found = {name: value for name, value in vars(route).items() if name not in before}
            known[key] = found, given  # kept, so that no id in the key is another object's later
        else:
            vars(route).update(known[key][0])
            route.endpoint = endpoint
            route.dependant = replace(route.dependant, call=endpoint)

    return filled


def _kind(call: Callable[..., Any]) -> tuple[object, str]:
    """Return what two functions have in common that differ by what they enclose alone."""
    types = [each if isinstance(each, str) else id(each) for each in _annotations(call)]
    return call.__code__, repr((call.__defaults__, call.__kwdefaults__, types))


def _annotations(call: Callable[..., Any]) -> list[object]:
    return [*call.__annotations__, *call.__annotations__.values()]

"""What the routes of one server share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smartcrawl.model.options import Options
from smartcrawl.model.server_options import ServerOptions
from smartcrawl.server.stores import Stores


@dataclass(frozen=True, slots=True)
class Context:
    """Options, stores and the clock: each module of routes gets it."""

    options: Options
    server: ServerOptions
    stores: Stores
    clock: Callable[[], float]  #: Unix seconds

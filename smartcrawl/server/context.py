"""The parts of one server that its routes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event

from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.model.options import Options
from smartcrawl.server.keys import KeyTime
from smartcrawl.server.measures import Metrics
from smartcrawl.server.stores import Stores


@dataclass(frozen=True, slots=True)
class Context:
    """Options, stores and the clock: each module of routes gets it."""

    options: Options
    server: ServerOptions
    stores: Stores
    metrics: Metrics
    clock: Callable[[], float]  #: Unix seconds
    ending: Event  #: set when the server ends: answers that go on end, too
    key_time: KeyTime = field(default_factory=KeyTime)  #: the time of idempotency keys

"""The parts of one server that its routes share, its measures among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.requests import Request

from smartcrawl import __version__
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.model.options import Options
from smartcrawl.rules.visibility import Reader, Visibility
from smartcrawl.server.keys import KeyTime, api_key_reader
from smartcrawl.server.stores import Stores

_BUCKETS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class Metrics:
    """The measures of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "smartcrawl_api_requests",
            "Requests to the API that were answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "smartcrawl_api_request_seconds",
            "Time from a request to the end of its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        build = Gauge(
            "smartcrawl_build", "The version that runs.", ("version",), registry=self.registry
        )
        build.labels(__version__).set(1)

        self._labelled: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer; ``route`` is the template of a path, so that there are few labels."""
        labels = method, route, status
        found = self._labelled.get(labels)
        if found is None:  # they are kept, since to look them up takes as long as to count twice
            found = self.requests.labels(method, route, str(status)), self.seconds.labels(route)
            self._labelled[labels] = found
        requests, times = found
        requests.inc()
        times.observe(seconds)

    def text(self) -> bytes:
        """Return all measures in the text format of Prometheus."""
        return generate_latest(self.registry)


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
    #: The visibilities that the tables of sources declare today, by source.
    visibilities: Callable[[], Mapping[str, Visibility]] = dict

    def reader(self, request: Request) -> Reader:
        """Return who asks: each route filters by it what it answers, and what it does."""
        return api_key_reader(request.scope.get("smartcrawl.key"), self.visibilities())

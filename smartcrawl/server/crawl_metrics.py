"""The measures of the crawl as Prometheus reads them, by source.

Names and units follow its rules: base units, ``_total`` for what only grows, no unit in a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from smartcrawl.reports.measures import OUTCOMES, SourceMeasures
from smartcrawl.rules.alarms import source_age

#: A measure of a source at a time (Unix seconds); None: the source has no value.
_Value = Callable[[SourceMeasures, int], float | None]
#: A measure of a source by the value of a further label.
_Values = Callable[[SourceMeasures], Mapping[str, float]]


def _states(one: SourceMeasures) -> Mapping[str, float]:
    counts = one.reported.status.counts
    names = ("pending", "crawled", "indexed", "error", "out_of_scope", "gone")
    return {name: getattr(counts, name) for name in names}


def _marks(one: SourceMeasures) -> Mapping[str, float]:
    counts = one.reported.status.counts
    return {
        "stored": counts.held,
        "lost": counts.lost,
        "orphaned": counts.orphans,
        "due": counts.due,
        "clone": counts.clones,
        "without_text": counts.without_text,
    }


def _runs(one: SourceMeasures) -> Mapping[str, float]:
    return {outcome: one.runs.get(outcome, 0) for outcome in OUTCOMES}


def _owed(one: SourceMeasures, _: int) -> float:
    vectors = one.reported.status.vectors
    return 0 if vectors is None else vectors.owed


_GAUGES: Final[Mapping[str, tuple[str, _Value]]] = {
    "smartcrawl_source_check_level": (
        "Level of the source as by status --check: 0 well, 1 look, 2 alarm.",
        lambda one, _: int(one.reported.alarm.level),
    ),
    "smartcrawl_source_last_complete_timestamp_seconds": (
        "Time when a run last saw all of the source that it was to see.",
        lambda one, _: one.reported.condition.seen_at,
    ),
    "smartcrawl_source_age_seconds": (
        "Time since then, or since the first run where none did yet.",
        lambda one, now: source_age(one.reported.condition, now),
    ),
    "smartcrawl_source_max_age_seconds": (
        "Age at which the source is stale (max_age); 0: never.",
        lambda one, _: one.reported.limits.max_age,
    ),
    "smartcrawl_source_failed_ratio": (
        "Share of the pages whose last visit failed.",
        lambda one, _: one.reported.condition.failed,
    ),
    "smartcrawl_source_max_failed_ratio": (
        "Share of them that is an alarm (max_failed).",
        lambda one, _: one.reported.limits.max_failed,
    ),
    "smartcrawl_source_removals_waiting": (
        "Removals that wait for approval.",
        lambda one, _: one.reported.condition.waiting,
    ),
    "smartcrawl_source_vectors_owed": ("Chunks that have no vector yet.", _owed),
}
_LABELLED: Final[Mapping[str, tuple[str, str, _Values]]] = {
    "smartcrawl_source_pages": ("Pages by state.", "state", _states),
    "smartcrawl_source_marked_pages": (
        "Pages by a mark; a page may have several.",
        "mark",
        _marks,
    ),
    "smartcrawl_source_failed_pages": (
        "Pages whose last visit failed, by reason.",
        "reason",
        lambda one: one.failures,
    ),
}
_COUNTERS: Final[Mapping[str, tuple[str, _Value]]] = {
    "smartcrawl_source_requests": (
        "Requests of all runs.",
        lambda one, _: one.reported.status.cost.requests,
    ),
    "smartcrawl_source_not_modified": (
        "Requests that were answered with 304.",
        lambda one, _: one.reported.status.cost.not_modified,
    ),
    "smartcrawl_source_downloaded_bytes": (
        "Bytes of bodies on the wire.",
        lambda one, _: one.reported.status.bytes.downloaded,
    ),
    "smartcrawl_source_saved_bytes": (
        "Bytes that a 304 made unnecessary to send.",
        lambda one, _: one.reported.status.bytes.saved,
    ),
    "smartcrawl_source_run_seconds": (
        "Time of all runs that ended.",
        lambda one, _: one.reported.status.cost.seconds,
    ),
}


class _Crawl(Collector):
    """The measures of some sources at one time."""

    def __init__(self, measures: Iterable[SourceMeasures] | None, now: int) -> None:
        """``measures`` None: the registry could not be read."""
        self._measures = None if measures is None else list(measures)
        self._now = now

    def collect(self) -> Iterator[Metric]:
        """Yield each family with a sample for each source."""
        up = 0 if self._measures is None else 1
        yield GaugeMetricFamily(
            "smartcrawl_registry_up", "Whether the registry could be read.", value=up
        )
        for family, names in self._families():
            for one in self._measures or ():
                for labels, value in names(one):
                    family.add_metric([one.reported.source, *labels], value)
            yield family

    def _families(
        self,
    ) -> Iterator[
        tuple[
            GaugeMetricFamily | CounterMetricFamily,
            Callable[[SourceMeasures], Iterable[tuple[tuple[str, ...], float]]],
        ]
    ]:
        for name, (text, value) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, labels=("source",)), self._single(value)
        for name, (text, label, values) in _LABELLED.items():
            yield GaugeMetricFamily(name, text, labels=("source", label)), _several(values)
        yield (
            CounterMetricFamily(
                "smartcrawl_source_runs", "Runs that ended.", labels=("source", "outcome")
            ),
            _several(_runs),
        )
        for name, (text, value) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, labels=("source",)), self._single(value)

    def _single(
        self, value: _Value
    ) -> Callable[[SourceMeasures], Iterable[tuple[tuple[str, ...], float]]]:
        def samples(one: SourceMeasures) -> Iterator[tuple[tuple[str, ...], float]]:
            found = value(one, self._now)
            if found is not None:
                yield (), found

        return samples


def _several(
    values: _Values,
) -> Callable[[SourceMeasures], Iterable[tuple[tuple[str, ...], float]]]:
    return lambda one: [((word,), number) for word, number in sorted(values(one).items())]


def crawl_metrics_text(measures: Iterable[SourceMeasures] | None, now: int) -> bytes:
    """Return the measures in the text format of Prometheus; ``now`` is in Unix seconds.

    ``measures`` None: the registry could not be read; ``smartcrawl_registry_up`` is 0 then.
    """
    registry = CollectorRegistry()
    registry.register(_Crawl(measures, now))
    return generate_latest(registry)

"""The settings of one crawl, with the keys of its source in their places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scrapy.settings import BaseSettings

from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_host_key
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.kinds import SITE

_PRIORITY: Final = "spider"  #: -s of a command line is stronger: it is an order for one run
_SLOTS: Final = "DOWNLOAD_SLOTS"


def options_with_source_keys(settings: BaseSettings, source: Source, options: Options) -> Options:
    """Set what the keys of a source say, and return the options of its run.

    Engine, lane, listings and workers read these settings, so that each key holds in all of them.
    A host gets the longest delay that any declared source with a seed on it asks for.

    Raises:
        SourceError: a file of sources cannot be read.
    """
    for name, value in _values(settings, source).items():
        settings.set(name, value, priority=_PRIORITY)
    delays = _delays_of_others(settings, source, options)
    if delays:
        settings.set(_SLOTS, delays, priority="cmdline")  # it has those of the command line, too
    return Options.of(settings) if source.request.given or delays else options


def _values(settings: BaseSettings, source: Source) -> dict[str, Any]:
    """Return the settings that follow from the keys, with the limits that would cut them short."""
    request, values = source.request, dict(source.request.settings)
    if request.delay is not None:
        longest = settings.getfloat("AUTOTHROTTLE_MAX_DELAY")
        values["AUTOTHROTTLE_MAX_DELAY"] = max(longest, request.delay)
    if request.concurrency is not None:
        most = settings.getint("CONCURRENT_REQUESTS")
        values["CONCURRENT_REQUESTS"] = max(most, request.concurrency)
    return values


def _delays_of_others(
    settings: BaseSettings, source: Source, options: Options
) -> dict[str, dict[str, Any]]:
    """Return DOWNLOAD_SLOTS with the delays of other sources that are longer than that of a run.

    Empty: no source asks for more.
    """
    if not source.traits.is_polite:
        return {}
    slots: dict[str, dict[str, Any]] = dict(settings.getdict(_SLOTS))
    least, is_longer = settings.getfloat("DOWNLOAD_DELAY"), False
    for host, seconds in declared_host_delays(options, but=source.name).items():
        given = slots.get(host, {})
        if seconds > max(least, float(given.get("delay", 0))):
            slots[host], is_longer = {**given, "delay": seconds}, True
    return slots if is_longer else {}


def declared_host_delays(options: Options, *, but: str = "") -> Mapping[str, float]:
    """Return the longest ``delay`` of the declared sites by host; ``but``: one that is left out."""
    delays: dict[str, float] = {}
    for name, source in load_declared_sources(*options.source_files).items():
        seconds = source.request.delay
        if seconds is None or name == but or source.kind != SITE.name:
            continue
        for url in source.starts:
            host = host_gate_slot(url_host_key(url))
            delays[host] = max(seconds, delays.get(host, 0))
    return delays

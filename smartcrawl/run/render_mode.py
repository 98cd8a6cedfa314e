"""Whether the pages of a run's source are shown by a browser."""

from __future__ import annotations

from smartcrawl.model.options import Options
from smartcrawl.rules.render_need import RenderMode
from smartcrawl.sources.base import Source
from smartcrawl.sources.site import SiteSource


def render_mode(source: Source, options: Options) -> RenderMode:
    """Return the mode of a source: its own, or that of the settings where it has none."""
    if not isinstance(source, SiteSource):
        return RenderMode.NO
    if source.render is not None:
        return RenderMode(source.render)
    return RenderMode(options.render)

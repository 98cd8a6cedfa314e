"""The order that a line of ``scrapy library`` gives, after its words were checked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from smartcrawl.model.options import Options
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.source import SharepointSource


@dataclass(frozen=True, slots=True)
class LibraryOrder:
    """An action at sources of a domain."""

    action: str
    domain: Domain
    sources: Sequence[SharepointSource]
    options: Options
    words: Namespace  #: options of the command line

    @property
    def is_full(self) -> bool:
        """Whether every item comes again."""
        return bool(self.words.mode == "full")

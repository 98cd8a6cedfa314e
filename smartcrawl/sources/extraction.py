"""What shapes an index entry out of a body, and so has to be the same for it to stand (M-15)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final, Self

from smartcrawl.model.options import Options
from smartcrawl.rules.model import Mode
from smartcrawl.sources.declared import Source
from smartcrawl.sources.patterns import compiled

EXTRACTION_VERSION: Final = 4  #: raised when the same body gives another document or other links
CHUNKING_VERSION: Final = 1  #: raised when the same document gives other chunks


@dataclass(frozen=True, slots=True)
class Selectors:
    """CSS selectors of the parts of a page whose text and images count, and of those that do not.

    Links are those of the whole page, whatever is selected.
    """

    keep: tuple[str, ...] = ()  #: empty: what is recognised as the main part
    drop: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keep or self.drop)


@dataclass(frozen=True, slots=True)
class ExtractionConfig:
    """How the pages of one source enter the index.

    >>> rules = (("/tag/", Mode.LINKS_ONLY), ("/tmp/", Mode.NONE))
    >>> ExtractionConfig(rules).mode_of("http://a.example/tag/x").word
    'links_only'
    """

    rules: tuple[tuple[str, Mode], ...] = ()  #: (pattern, mode): the first that matches counts
    selectors: Selectors = Selectors()
    basis: str = "text"  #: what a content hash is made of: text or bytes

    @classmethod
    def of(cls, source: Source | None, options: Options) -> Self:
        """Return the configuration of a source; None: of one that is not declared."""
        basis = "bytes" if options.content_hash_basis == "bytes" else "text"  # auto: text, if any
        if source is None:
            return cls(basis=basis)
        rules = tuple((rule.pattern, rule.mode) for rule in source.index_modes)
        return cls(rules, Selectors(source.keep_selectors, source.drop_selectors), basis)

    def mode_of(self, url: str) -> Mode:
        """Return how the page at a request URL enters the index."""
        for pattern, mode in self.rules:
            if compiled(pattern).search(url):
                return mode
        return Mode.INDEX

    def fingerprint(self, mode: Mode) -> bytes:
        """Return the fingerprint (16 bytes) of all that shapes a page of this mode.

        Of a page that is not indexed only its links are read, whatever is selected.
        """
        told: list[object] = [EXTRACTION_VERSION, mode.word]
        if mode is Mode.INDEX:
            told += [CHUNKING_VERSION, self.basis, self.selectors.keep, self.selectors.drop]
        return hashlib.sha256(json.dumps(told).encode()).digest()[:16]

"""Configuration of the extraction; an index entry is valid only while it is the same (M-15)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Final, Self

from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE, ChunkSize
from smartcrawl.model.options import Options
from smartcrawl.rules.model import Mode
from smartcrawl.sources.base import Source
from smartcrawl.sources.scope import compile_scope_pattern

EXTRACTION_VERSION: Final = 8  #: raise it when the same body gives another document or other links
CHUNKING_VERSION: Final = 3  #: raise it when the same document gives other chunks


@dataclass(frozen=True, slots=True)
class Selectors:
    """CSS selectors of the parts of a page whose text and images count, and of those that do not.

    Links always come from the whole page.
    """

    keep: tuple[str, ...] = ()  #: empty: the part that is recognised as the main one
    drop: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keep or self.drop)


@dataclass(frozen=True, slots=True)
class SourceExtractionConfig:
    """Rules by which the pages of one source enter the index.

    >>> rules = (("/tag/", Mode.LINKS_ONLY), ("/tmp/", Mode.NONE))
    >>> SourceExtractionConfig(rules).mode_of("http://a.example/tag/x").word
    'links_only'
    """

    rules: tuple[tuple[str, Mode], ...] = ()  #: (pattern, mode): the first that matches counts
    selectors: Selectors = Selectors()
    basis: str = "text"  #: input of the content hash: text or bytes
    chunks: ChunkSize = DEFAULT_CHUNK_SIZE

    @classmethod
    def of(cls, source: Source | None, options: Options) -> Self:
        """Return the configuration of a source; None stands for an undeclared one."""
        basis = "bytes" if options.content_hash_basis == "bytes" else "text"  # auto: text, if any
        if source is None:
            return cls(basis=basis, chunks=options.chunks)
        rules = tuple((rule.pattern, rule.mode) for rule in source.index_modes)
        selectors = Selectors(source.keep_selectors, source.drop_selectors)
        return cls(rules, selectors, basis, options.chunks)

    def mode_of(self, url: str) -> Mode:
        """Return the index mode of the page at a request URL."""
        for pattern, mode in self.rules:
            if compile_scope_pattern(pattern).search(url):
                return mode
        return Mode.INDEX

    def fingerprint(self, mode: Mode) -> bytes:
        """Return the fingerprint (16 bytes) of the configuration for pages of this mode.

        Selectors do not count for pages that are not indexed, because only their links are read.
        """
        parts: list[object] = [EXTRACTION_VERSION, mode.word]
        if mode is Mode.INDEX:
            parts += [CHUNKING_VERSION, self.basis, self.selectors.keep, self.selectors.drop]
            parts.append(self.chunks)
        return hashlib.sha256(json.dumps(parts).encode()).digest()[:16]

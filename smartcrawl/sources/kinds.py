"""The kinds of sources, and the assumptions that a crawl of each makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of source: its spider, and the assumptions of its crawl."""

    name: str  #: as in sources.toml
    spider: str
    is_listed: bool  #: a listing says what exists, so what it lacks is gone
    follows_links: bool  #: links lead to further pages, within URL budgets and trap rules
    asks_robots: bool  #: robots.txt decides what is requested
    is_shielded: bool  #: an empty or a collapsed answer may be a fault of the server
    is_polite: bool  #: hosts have delays and pauses, and are given up when they do not answer
    is_shareable: bool  #: several workers may share a run
    #: A validator is a hash of the content: it needs no sample, and no server is asked about it.
    is_hashed: bool = False
    is_listed_first: bool = False  #: nothing is read before the listing has ended


SITE: Final = Kind(
    "site",
    spider="site",
    is_listed=False,
    follows_links=True,
    asks_robots=True,
    is_shielded=True,
    is_polite=True,
    is_shareable=True,
)
#: Single pages that were ordered over the HTTP API (ADR 61): links lead to other ordered
#: pages only, because its scope has no others.
DOCUMENTS: Final = replace(SITE, name="documents")
#: Files of a folder or of a bucket.
FILES: Final = Kind(
    "files",
    spider="files",
    is_listed=True,
    follows_links=False,
    asks_robots=False,
    is_shielded=False,
    is_polite=False,
    is_shareable=False,
)
#: Files of a repository on GitHub (ADR 67).
GITHUB: Final = replace(FILES, name="github", spider="github", is_polite=True, is_hashed=True)
#: Files, list items or pages of a document library; declared in a domain.json (ADR 83).
SHAREPOINT: Final = replace(GITHUB, name="sharepoint", spider="sharepoint", is_listed_first=True)

#: All kinds, by name.
KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind for kind in (SITE, DOCUMENTS, FILES, GITHUB, SHAREPOINT)
}
#: The spiders that crawl sources.
SPIDERS: Final = tuple(dict.fromkeys(kind.spider for kind in KINDS.values()))


def source_kind_named(name: str) -> Kind:
    """Return the kind of this name, as a source or the registry has it.

    Raises:
        KeyError: there is none.
    """
    return KINDS[name]

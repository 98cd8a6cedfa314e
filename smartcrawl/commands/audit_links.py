"""The part of ``smartcrawl audit`` about links to numbers that have no record."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, Self

from smartcrawl.commands.audit_domains import SHOWN
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.transactions import transaction
from smartcrawl.registry.repair.nowhere import (
    LinksToNowhere,
    links_to_nowhere_rows,
    mend_links_to_nowhere,
)
from smartcrawl.reports.text import report_noun


@dataclass(slots=True)
class AuditedLinks:
    """Pages with links to addresses that have no record, by source."""

    found: list[tuple[str, LinksToNowhere]]
    mended: bool = False

    @classmethod
    def of(cls, connection: Connection, sources: list[tuple[int, str]]) -> Self:
        """Look for them in some sources, given by number and name."""
        return cls(
            [(name, page) for no, name in sources for page in links_to_nowhere_rows(connection, no)]
        )

    @property
    def agree(self) -> bool:
        """Whether each link leads to a record, or is looked up again by the next run."""
        return self.mended or not self.found

    def mend(self, connection: Connection) -> None:
        """Have the next run look up the links of these pages; the caller has the leases."""
        with transaction(connection):
            mend_links_to_nowhere(connection, [page for _, page in self.found])
        self.mended = True

    def print_text(self) -> None:
        """Print the first pages, with what becomes of them."""
        if not self.found:
            return
        count = len(self.found)
        verb = "links" if count == 1 else "link"
        after = "; the next run resolves their links again" if self.mended else ""
        print(f"{report_noun(count, 'page')} {verb} to addresses that have no record{after}")
        for source, page in islice(self.found, SHOWN):
            print(f"  {source}  {page.url}  {report_noun(len(page.targets), 'link')}")
        if count > SHOWN:
            print(f"  and {count - SHOWN:,} more (--format json lists all)")

    def as_json(self) -> list[dict[str, Any]]:
        """Return the pages as objects of JSON."""
        return [
            {"source": source, "url": page.url, "no": page.no, "targets": list(page.targets)}
            for source, page in self.found
        ]

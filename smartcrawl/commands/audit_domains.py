"""The domains of libraries in ``smartcrawl audit``: their audits, before and after a repair."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.reports.text import report_noun
from smartcrawl.run.library.audit import DomainAudit, DomainFindings, run_domain_audit_summary
from smartcrawl.run.library.comparison import Difference, Place
from smartcrawl.sources.sharepoint.domains import load_sharepoint_domain, sharepoint_domain_ids
from smartcrawl.terminal.output import printed_json
from smartcrawl.terminal.tables import (
    Column,
    print_table,
    printed_name_column,
    printed_note_column,
    printed_whole_column,
    printed_word_column,
)

SHOWN: Final = 20  #: differences of a domain, or of a kind, in a table


def audit_command_columns(thing: str) -> tuple[Column, ...]:
    """Return the columns of a table of differences; ``thing``: the name of what differs."""
    return (
        printed_word_column("difference"),
        printed_name_column("source"),
        printed_whole_column(thing),
        printed_note_column("detail"),
    )


_COLUMNS: Final = audit_command_columns("item")
#: Names of the places, as they follow "missing in".
_PLACES: Final = {
    Place.FILES: "on disk",
    Place.FILES_MAP: "in files_map.csv",
    Place.VECTORSTORE_MAP: "in vectorstore_map.csv",
    Place.VECTOR_STORE: "in the vector store",
    Place.METADATA: "in files_metadata.json",
}


@dataclass(frozen=True, slots=True)
class AuditedDomains:
    """The findings of each domain, and those that are left after a repair."""

    found: list[tuple[DomainFindings, DomainFindings | None]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  #: of domains that cannot be read

    @property
    def agree(self) -> bool:
        """Whether no difference is left, and everything was compared."""
        after = (found if left is None else left for found, left in self.found)
        return not self.problems and all(findings.agree for findings in after)

    @property
    def is_empty(self) -> bool:
        """Whether there is no domain."""
        return not (self.found or self.problems)

    def print_text(self) -> None:
        """Print the counts, and the first differences as a table."""
        for found, left in self.found:
            _print_domain(found, left)

    def print_json(self) -> None:
        """Print one JSON array; its lists of differences are streamed, not kept in memory."""
        print("[", end="")
        for number, (found, left) in enumerate(self.found):
            print(f"{',' if number else ''}\n    {{")
            for key, value in run_domain_audit_summary(found, left).items():
                print(f"      {json.dumps(key)}: {printed_json(value, sys.stdout)},")
            print('      "differences": [', end="")
            shown = found if left is None else left
            for place, difference in enumerate(shown):
                row = printed_json(difference._asdict(), sys.stdout)
                print(f"{',' if place else ''}\n        {row}", end="")
            print("]\n    }", end="")
        print("]", end="")


@contextmanager
def audit_command_domains(
    connection: Connection,
    options: Options,
    names: Sequence[str],
    *,
    reads_data: bool,
    is_mending: bool,
    tick: Callable[[str, int], None],
) -> Iterator[AuditedDomains]:
    """Compare the domains of some sources, all where none is named, and repair them.

    ``tick`` is called with a participle, and the number of items so far.

    Raises:
        SmartcrawlError: a repair cannot be carried out.
    """
    audited = AuditedDomains()
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        tick("compared", done)

    with ExitStack() as stack:
        for domain_id in sharepoint_domain_ids(options.sharepoint.storage):
            if names and not any(name.startswith(f"{domain_id}.") for name in names):
                continue
            try:
                domain = load_sharepoint_domain(options.sharepoint.storage, domain_id)
            except SourceError as error:
                audited.problems.append(str(error))
                continue
            audit = DomainAudit(domain, options, connection, names, reads_data=reads_data)
            if not audit.has_items():
                continue
            found = stack.enter_context(audit.compare(count))
            left = None
            if is_mending and found.agree:
                left = found
            elif is_mending:
                reasons = audit.mend(found)
                left = stack.enter_context(audit.compare(count))
                left.reasons += reasons
            audited.found.append((found, left))
        yield audited


def _print_domain(found: DomainFindings, left: DomainFindings | None) -> None:
    print(f"{found.domain}: {report_noun(found.items, 'item')} in the registry")
    shown = found if left is None else left
    for place, where in _PLACES.items():
        for difference, number in found.counts[place].items():
            after = 0 if left is None else left.counts[place][difference]
            if number or after:
                tail = "" if left is None else f", {after:,} left"
                print(f"{number:7,} {difference} {where}{tail}")
    rows: list[dict[str, Any]] = [
        {
            "difference": each.difference,
            "source": each.source,
            "item": each.item,
            "detail": f"{_PLACES[each.place]}{each.detail and ': '}{each.detail}",
        }
        for each in islice(shown, SHOWN)
    ]
    if rows:
        print()
        print_table(_COLUMNS, rows)
    if shown.total() > SHOWN:
        print(f"and {shown.total() - SHOWN:,} more (--format json lists all)")
    if shown.agree:
        print("records, disk, maps, vector store and metadata agree")


def files_missing_for_audit_command(audited: AuditedDomains) -> list[str]:
    """Return the domains some files of which only a download brings back."""
    return [
        found.domain
        for found, left in audited.found
        if left is not None and left.counts[Place.FILES][Difference.MISSING]
    ]

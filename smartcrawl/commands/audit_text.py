"""The result of ``smartcrawl audit``, printed."""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import Any, Final

from smartcrawl.commands.audit_domains import SHOWN, AuditedDomains, audit_command_columns
from smartcrawl.commands.audit_links import AuditedLinks
from smartcrawl.index.audit import AuditFindings, Finding, Kind
from smartcrawl.reports.text import report_noun
from smartcrawl.terminal.output import print_note, printed_json
from smartcrawl.terminal.tables import print_table

_COLUMNS: Final = audit_command_columns("page")
#: Names of the kinds of differences, for 1 and for any other number.
_WORDS: Final = {
    Kind.MISSING: ("missing document", "missing documents"),
    Kind.SURPLUS: ("surplus document", "surplus documents"),
    Kind.LINKED: ("linked document without a record", "linked documents without a record"),
    Kind.CHANGED: ("document with other content", "documents with other content"),
    Kind.VECTORS: ("document with other vectors", "documents with other vectors"),
    Kind.OPEN: ("open record", "open records"),
    Kind.DEAD: ("dead letter", "dead letters"),
}


def print_audit_command(
    found: AuditFindings, left: AuditFindings | None, strange: str | None, *, agree: bool
) -> None:
    """Print the counts and the first differences as a table."""
    pages, documents = (
        report_noun(found.pages, "page"),
        report_noun(found.documents, "document"),
    )
    print(f"{pages} in the registry, {documents} in the index")
    if strange is not None:
        print_note(strange)
    shown = found if left is None else left
    rows = [_row(kind, one) for kind in Kind for one in islice(shown.of(kind), SHOWN)]
    for kind in Kind:
        number = found.counts[kind]
        after = "" if left is None else f", {left.counts[kind]:,} left"
        print(f"{number:7,} {_WORDS[kind][number != 1]}{after}")
    if rows:
        print()
        print_table(_COLUMNS, rows)
    more = sum(max(0, shown.counts[kind] - SHOWN) for kind in Kind)
    if more:
        print(f"and {more:,} more (--format json lists all)")
    if agree:
        print("registry and index agree")


def _row(kind: Kind, one: Finding) -> dict[str, Any]:
    return {
        "difference": kind,
        "source": one.source,
        "page": one.url or one.key,
        "detail": one.detail,
    }


def print_audit_command_as_json(
    found: AuditFindings,
    left: AuditFindings | None,
    strange: str | None,
    parts: tuple[AuditedDomains, AuditedLinks],
    *,
    agree: bool,
) -> None:
    """Print one JSON object; its lists are streamed, not kept in memory.

    ``agree``: whether registry and index do.
    """
    domains, links = parts
    facts: dict[str, Any] = {
        "index": "elasticsearch",
        "agree": agree and domains.agree and links.agree,
        "mismatch": strange,
        "pages": found.pages,
        "documents": found.documents,
        "counts": found.counts,
        "left": None if left is None else left.counts,
    }
    print("{")
    for key, value in facts.items():
        print(f"  {json.dumps(key)}: {printed_json(value, sys.stdout)},")
    for place, kind in enumerate(Kind, 1):
        print(f"  {json.dumps(kind)}: [", end="")
        for number, one in enumerate(found.of(kind)):
            row = printed_json(one._asdict(), sys.stdout)
            print(f"{',' if number else ''}\n    {row}", end="")
        print("]" if place == len(Kind) else "],")
    _print_parts_as_json(domains, links)


def print_embedded_audit_as_json(domains: AuditedDomains, links: AuditedLinks) -> None:
    """Print one JSON object about an index that is part of the registry."""
    agree = domains.agree and links.agree
    print(f'{{\n  "index": "embedded",\n  "agree": {json.dumps(agree)}')
    _print_parts_as_json(domains, links)


def _print_parts_as_json(domains: AuditedDomains, links: AuditedLinks) -> None:
    """Print the end of an object, with the keys of domains and links where there are some."""
    if links.found:
        print(f'  , "nowhere": {printed_json(links.as_json(), sys.stdout)}')
    if not domains.is_empty:
        print('  , "domains": ', end="")
        domains.print_json()
        print()
    print("}")

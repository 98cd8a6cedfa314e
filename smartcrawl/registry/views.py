"""Connections for reports: read-only, with the links of every page as the table outlinks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import apsw.ext

from smartcrawl.registry.database import connect, migrate
from smartcrawl.registry.pack import unpack_links
from smartcrawl.registry.reports import iso
from smartcrawl.urls import normalize, url_hash

_LINKS = """
SELECT l.no, lower(hex(r.id)), l.raw, r.first_seen FROM links l JOIN record r USING (no)
 ORDER BY l.no
"""
_MOST = 65_536  #: links of one page


def report_connection(path: Path) -> apsw.Connection:
    """Open the registry for reading, with the virtual table ``outlinks`` (R2-53)."""
    opened = connect(path)
    migrate(opened, path)
    opened.close()
    connection = connect(path, readonly=True)

    def outlinks() -> Iterator[dict[str, Any]]:
        for no, source, raw, seen in connection.execute(_LINKS):
            for place, link in enumerate(unpack_links(raw)):
                yield {
                    "id": no * _MOST + place,
                    "source_url_hash": source,
                    "target_url": link.url,
                    "target_url_hash": url_hash(normalize(link.url)),
                    "anchor_text": link.anchor,
                    "link_type": link.type
                    if link.type in ("redirect", "canonical")
                    else "hyperlink",
                    "discovered_at": iso(seen),
                }

    outlinks.columns = (  # type: ignore[attr-defined]  # read by apsw
        "id",
        "source_url_hash",
        "target_url",
        "target_url_hash",
        "anchor_text",
        "link_type",
        "discovered_at",
    )
    outlinks.column_access = apsw.ext.VTColumnAccess.By_Name  # type: ignore[attr-defined]  # likewise
    apsw.ext.make_virtual_module(connection, "outlinks", outlinks)
    return connection

"""The links of every page as a virtual table of SQLite connections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import apsw
import apsw.ext

from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import Trackers, normalize_url, url_hash
from smartcrawl.registry.pack import unpack_stored_links

_LINKS = """
SELECT l.no, lower(hex(r.id)), l.raw, r.first_seen FROM links l JOIN record r USING (no)
 ORDER BY l.no
"""
_MOST = 65_536  #: links of one page


def create_outlinks_table(connection: apsw.Connection, trackers: Trackers) -> None:
    """Give a connection the virtual table ``outlinks`` (R2-53)."""
    apsw.ext.make_virtual_module(connection, "outlinks", cast(Any, _Outlinks(connection, trackers)))


class _Outlinks:
    """The rows of the virtual table ``outlinks``, in the form that apsw expects."""

    columns = (
        "id",
        "source_url_hash",
        "target_url",
        "target_url_hash",
        "anchor_text",
        "link_type",
        "discovered_at",
    )
    column_access = apsw.ext.VTColumnAccess.By_Index

    def __init__(self, connection: apsw.Connection, trackers: Trackers) -> None:
        self._connection = connection
        self._trackers = trackers

    def __call__(self, *_: Any, **__: Any) -> Iterator[tuple[Any, ...]]:
        row: Any  # apsw types each column as any of SQLite's types
        for row in self._connection.execute(_LINKS):
            for place, link in enumerate(unpack_stored_links(row[2])):
                yield (
                    row[0] * _MOST + place,
                    row[1],
                    link.url,
                    url_hash(normalize_url(link.url, self._trackers)),
                    link.anchor,
                    link.type if link.type in ("redirect", "canonical") else "hyperlink",
                    iso_time(row[3]),
                )

"""Rows of pages that were read both ways, with and without a browser."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from smartcrawl.model.rendered import StoredSample
from smartcrawl.registry.connection import Connection
from smartcrawl.rules.render_need import Sample

_ALL: Final = """
SELECT no, template, words, lines, links, refused FROM render_sample WHERE source = ? ORDER BY no
"""
_PUT: Final = """
INSERT INTO render_sample (no, source, template, words, lines, links, refused)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (no) DO UPDATE
   SET template = excluded.template, words = excluded.words, lines = excluded.lines,
       links = excluded.links, refused = excluded.refused
"""
#: Fewer characters than 20 words have, as a rule.
_SHORT: Final = """
SELECT EXISTS (SELECT 1 FROM record r JOIN content c ON c.no = r.content
                WHERE r.no = ? AND c.text_length < 200)
"""
_LINE: Final = struct.Struct(">8sI")  #: digest, new words
_LINK: Final = 8  #: bytes of a digest


class SampleReader:
    """Reads the samples of a source, of which a host has few."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def samples(self, source: int) -> dict[int, StoredSample]:
        """Return the samples of a source (source.no) by number."""
        rows: Any = self._connection.execute(_ALL, (source,)).fetchall()
        return {
            no: StoredSample(template, _sample(words, bytes(lines), bytes(links), refused))
            for no, template, words, lines, links, refused in rows
        }

    def is_short(self, page: int) -> bool:
        """Whether a stored page (record.no) has next to no text."""
        return bool(self._connection.execute(_SHORT, (page,)).get)


def stored_source_samples(connection: Connection, name: str) -> dict[int, StoredSample]:
    """Return the samples of the source of a name; none where it has not been crawled."""
    found = connection.execute("SELECT no FROM source WHERE name = ?", (name,)).get
    return {} if found is None else SampleReader(connection).samples(int(found))


def _sample(words: int, lines: bytes, links: bytes, refused: str) -> Sample:
    digests = frozenset(links[at : at + _LINK] for at in range(0, len(links), _LINK))
    return Sample(words, dict(_LINE.iter_unpack(lines)), digests, tuple(json.loads(refused)))


def store_sample_rows(
    connection: Connection, source: int, samples: Mapping[int, StoredSample]
) -> None:
    """Store samples by number; the caller's transaction."""
    values = [
        (no, source, template, sample.words,
         b"".join(_LINE.pack(*line) for line in sorted(sample.lines.items())),
         b"".join(sorted(sample.links)), json.dumps(sample.refused))
        for no, (template, sample) in sorted(samples.items())  # the order of all locks
    ]  # fmt: skip
    connection.executemany(_PUT, values)

"""``files_metadata.json`` as a stream: one entry at a time is in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TextIO

from smartcrawl.sources.sharepoint.busy_files import retry_busy_sharepoint_file
from smartcrawl.sources.sharepoint.metadata import Entry

_BLOCK: Final = 1 << 16  #: characters that are read at once
_SPACE: Final = re.compile(r"[ \t\n\r]*+").match
_NO_ARRAY: Final = "it is no array of objects"
_DECODER: Final = json.JSONDecoder()


def streamed_sharepoint_metadata(path: Path) -> Iterator[Entry]:
    """Yield the entries of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged.
    """
    with retry_busy_sharepoint_file(lambda: path.open(encoding="utf-8-sig")) as file:
        text = _Window(file)
        if text.next_character() != "[":
            raise ValueError(_NO_ARRAY)
        text.skip()
        is_ended = text.next_character() == "]"
        while not is_ended:
            entry = text.value()
            if not isinstance(entry, dict):
                raise ValueError(_NO_ARRAY)
            yield entry
            separator = text.next_character()
            if separator not in (",", "]"):
                raise ValueError(f"it is no JSON: {separator or 'its end'!r} instead of a comma")
            is_ended = separator == "]"
            if not is_ended:
                text.skip()
        text.skip()
        if text.next_character():
            raise ValueError("it is no JSON: more follows its array")


class _Window:
    """The part of a file that is looked at."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._text = ""
        self._place = 0

    def next_character(self) -> str:
        """Return the next character that is no space, or an empty text at the end."""
        while True:
            space = _SPACE(self._text, self._place)
            assert space is not None, "it matches nothing, too"
            self._place = space.end()
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._reads_more():
                return ""

    def skip(self) -> None:
        """Go behind the next character."""
        self._place += 1

    def value(self) -> Any:
        """Return the next value, and go behind it.

        Raises:
            ValueError: there is none.
        """
        self.next_character()
        while True:
            try:
                value, self._place = _DECODER.raw_decode(self._text, self._place)
            except RecursionError as error:
                raise ValueError(f"it is no JSON: {error}") from error
            except ValueError as error:
                if not self._reads_more():
                    raise ValueError(f"it is no JSON: {str(error)[:200]}") from error
            else:
                return value

    def _reads_more(self) -> bool:
        """Read a block, twice as much where a value is long; return whether there was more."""
        more = self._file.read(max(_BLOCK, len(self._text) - self._place))
        self._text, self._place = self._text[self._place :] + more, 0
        return bool(more)

"""The ids that GitHub gives to the headings of a text in light markup."""

from __future__ import annotations

import re
from typing import Final

_NO_WORD: Final = re.compile(r"[^\w\- ]")  #: goes from the id of a heading


class HeadingIds:
    """The ids of the headings of one text, in their order.

    Source: GitHub, "Basic writing and formatting syntax", section links.

    >>> ids = HeadingIds()
    >>> ids.next_id("What's new?"), ids.next_id("Lamps"), ids.next_id("Lamps")
    ('whats-new', 'lamps', 'lamps-1')
    """

    def __init__(self) -> None:
        self._used: dict[str, int] = {}  # how often each id was given

    def next_id(self, heading: str) -> str:
        """Return the heading in lower case, with dashes for spaces, without signs.

        Repetitions end with -1, -2 and so on. A heading of signs alone has an empty id.
        """
        name = _NO_WORD.sub("", heading.strip().lower()).replace(" ", "-")
        count = self._used.get(name, 0)
        self._used[name] = count + 1
        if not count:
            return name
        while (numbered := f"{name}-{count}") in self._used:
            count += 1
        self._used[numbered] = 1
        return numbered

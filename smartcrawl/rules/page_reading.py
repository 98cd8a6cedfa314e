"""How many processes read the pages of a crawl (ADR 177)."""

from __future__ import annotations

from typing import Final, NamedTuple

#: Setting of a process that crawls beside others: how many do at once.
CRAWLS_AT_ONCE: Final = "CRAWLS_AT_ONCE"
MOST_READERS: Final = 8  #: processes that read pages, unless another number is given
#: Pages that the crawling process reads itself before it starts such processes: one takes as long
#: to start as a hundred pages take to be read.
READ_FIRST: Final = 64


class PageReading(NamedTuple):
    """How the downloaded pages of a crawl are read."""

    processes: int = 0  #: 0: the crawling process reads them
    first: int = 0  #: pages that it reads itself before it starts the processes


READ_HERE: Final = PageReading()


def page_reading(asked: int | None, *, cores: int, jobs: int = 1) -> PageReading:
    """Return how the pages of one of ``jobs`` crawls at once are read.

    ``asked``: how many processes read those of all these crawls; None: a core is left to those that
    ask and decide, and small sites have none.

    >>> page_reading(None, cores=1).processes, page_reading(None, cores=2)
    (0, PageReading(processes=1, first=64))
    >>> page_reading(None, cores=64).processes, page_reading(None, cores=8, jobs=4).processes
    (8, 1)
    >>> page_reading(3, cores=1), page_reading(3, cores=8, jobs=4).processes
    (PageReading(processes=3, first=0), 0)
    """
    if asked is None:
        return PageReading(min(cores - 1, MOST_READERS) // jobs, READ_FIRST)
    return PageReading(asked // jobs)

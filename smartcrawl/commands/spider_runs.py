"""The runs that a command line asks for, and what becomes of each as an exit status."""

from __future__ import annotations

from typing import NamedTuple

from smartcrawl.spiders.base import VisitSpider

DONE, FAILED, INCOMPLETE, HELD = 0, 1, 3, 4  #: exit statuses; Scrapy uses 2 for wrong usage
#: From best to worst. A source that another run crawls gets its visits; an incomplete one waits.
SEVERITY = (DONE, HELD, INCOMPLETE, FAILED)


class SpiderRun(NamedTuple):
    """One run that a command line asks for."""

    spider: type[VisitSpider]
    arguments: dict[str, str]  #: of the spider

"""Requests of a run that ends by order."""

from __future__ import annotations

from scrapy.exceptions import IgnoreRequest

from smartcrawl.model.exceptions import RunHaltedError


class HaltedRequestError(RunHaltedError, IgnoreRequest):
    """The same error, ignored by Scrapy: not logged as an error of the spider."""

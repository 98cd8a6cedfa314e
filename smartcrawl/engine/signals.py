"""Scrapy signals of smartcrawl: ``crawler.signals.connect(receiver, signal=page_progress)``."""

#: Sent for each page that was visited, and again for each that a sweep removed. Receivers take
#: ``event``, a dict: ``url``; ``pageId``, the record's number; ``depth``; ``status``, HTTP or
#: extended, None where nothing was asked; ``outcome``, a word of ``lastOutcome``; ``deleted``,
#: whether the page was removed just now (R1-08).
page_progress = object()

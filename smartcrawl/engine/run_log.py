"""The log of a run that no job ran, in the state folder, for the page of the run (ADR 184)."""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from logging import LogRecord
from pathlib import Path
from typing import IO, ClassVar, Final, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from smartcrawl.engine.current_run import run_of_crawler
from smartcrawl.engine.logs import is_log_news
from smartcrawl.model.run_logs import RUN_LOG_BYTES, run_log_file, surplus_run_logs
from smartcrawl.registry.runs.run_orders import PREFIX
from smartcrawl.run.run import Run
from smartcrawl.sources.private_files import private_file, private_folder
from smartcrawl.terminal.log_lines import printed_line_formatter

logger = logging.getLogger(__name__)

_REFUSED: Final = "the page of this run will have no log: %s cannot be written (%s)"


class RunLog:
    """Extension that keeps the lines of a run, from INFO, whatever the terminal shows of them.

    A process may crawl two sources at the same time by a script of its user. Then no line
    names its run, one of them may be private, and neither run has a log any more.
    """

    _open: ClassVar[Self | None] = None  #: the one of this process

    def __init__(self, crawler: Crawler, run: Run) -> None:
        self._crawler = crawler
        self._file = run_log_file(run.options.data_dir, run.opened.no)
        self._goes_on = run.opened.resumed or run.opened.joined
        self._handler: BoundedLogFile | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Take the run of the crawler's spider, unless the server keeps the log of its job."""
        run = run_of_crawler(crawler)
        if run is None or str(getattr(crawler.spider, "_job", "")).startswith(PREFIX):
            raise NotConfigured
        log = cls(crawler, run)
        crawler.signals.connect(log.opened, signal=signals.spider_opened)
        crawler.signals.connect(log.closed, signal=signals.engine_stopped)
        return log

    def opened(self) -> None:
        """Begin the log."""
        former, RunLog._open = RunLog._open, self
        try:
            if not self._goes_on:  # a file of this number is that of a former registry
                self._file.unlink(missing_ok=True)
            if former is not None and former._crawler.crawling:
                former.discard()
                return
            if former is not None:
                former.closed()
            if not self._crawler.settings.getbool("LOG_ENABLED"):
                return
            private_folder(self._file.parent)
            _make_room(self._file.parent)
            private_file(self._file)
            self._handler = BoundedLogFile(self._file)
        except OSError as error:
            logger.warning(_REFUSED, self._file, error.strerror)
            return
        logging.root.addHandler(self._handler)

    def closed(self) -> None:
        """End the log."""
        if RunLog._open is self:
            RunLog._open = None
        if self._handler is not None:
            logging.root.removeHandler(self._handler)
            self._handler.close()
            self._handler = None

    def discard(self) -> None:
        """End the log, and remove it: another run began in this process."""
        self.closed()
        with suppress(OSError):
            self._file.unlink(missing_ok=True)


class BoundedLogFile(logging.FileHandler):
    """A log that loses its first half when it is full, and ends where it cannot be written."""

    def __init__(self, file: Path) -> None:
        """Open a log to go on with it.

        Raises:
            OSError: it cannot be written.
        """
        super().__init__(file, encoding="utf-8", errors="backslashreplace")
        self.setLevel(logging.INFO)
        self.addFilter(is_log_news)
        self.setFormatter(printed_line_formatter("text"))

    def emit(self, record: LogRecord) -> None:
        """Write the lines of an event."""
        super().emit(record)
        if self.stream is None:
            return
        try:
            if os.fstat(self.stream.fileno()).st_size > RUN_LOG_BYTES:
                self._halve(self.stream)
        except OSError:
            self.handleError(record)

    def handleError(self, _record: LogRecord) -> None:  # noqa: N802  # logging's name
        """Write nothing any more: a full disk has one warning, and not one a line."""
        logging.root.removeHandler(self)
        logger.warning("the page of this run has its log up to here: it cannot be written")

    def _halve(self, stream: IO[str]) -> None:
        """Keep the last half, from the beginning of a line."""
        path = Path(self.baseFilename)
        with path.open("rb") as log:
            log.seek(-RUN_LOG_BYTES // 2, os.SEEK_END)
            kept = log.read().partition(b"\n")[2]
        stream.truncate(0)
        stream.write(kept.decode("utf-8", "replace"))
        stream.flush()


def _make_room(folder: Path) -> None:
    """Remove the oldest logs of runs, so that a new one has a place."""
    found = []
    for entry in os.scandir(folder):
        with suppress(OSError):  # another process has removed it
            found.append((entry.name, entry.stat(follow_symlinks=False).st_mtime))
    for name in surplus_run_logs(found):
        (folder / name).unlink(missing_ok=True)

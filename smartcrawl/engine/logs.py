"""Log lines: text or JSON, an event a line, without secrets and control characters.

Three steps make any text fit to be shown: secrets are hidden, characters that move a cursor or
break a line are escaped, and long texts are cut. Most logged text comes from web pages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from logging import LogRecord
from pathlib import Path
from typing import Any, ClassVar, Final

from scrapy.utils import log as scrapy_log
from structlog.processors import JSONRenderer, format_exc_info
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, WrappedLogger

from smartcrawl.model.redaction import redacted_log_format, shown, shown_lines
from smartcrawl.sources.private_files import file_like_its_folder
from smartcrawl.terminal.bar import AboveBar

#: Loggers that list versions, settings and components at every start.
_WORDY: Final = frozenset({
    "elastic_transport.transport",
    "scrapy.addons",
    "scrapy.crawler",
    "scrapy.middleware",
    "scrapy.utils.log",
})  # fmt: skip
#: Loggers of clients whose failures a message of ours reports, with the remedy.
_REPEATED: Final = frozenset({"elastic_transport.node_pool"})


def log_formatter(kind: str, date_format: str | None = None) -> logging.Formatter:
    """Return the formatter of log lines; ``kind`` is one of FORMATS."""
    json = kind == "json"
    clock = partial(logging.Formatter().formatTime, datefmt=date_format)
    return ProcessorFormatter(
        processors=[
            format_exc_info,
            partial(_as_data, clock=_timestamp if json else clock),
            JSONRenderer() if json else _text_line,  # in ASCII, for any LOG_ENCODING
        ],
        use_get_message=False,
        pass_foreign_args=True,
    )


def _as_data(
    _logger: WrappedLogger, _method: str, event: EventDict, *, clock: Callable[[LogRecord], str]
) -> EventDict:
    """Return the fields of an event that are logged."""
    record: LogRecord = event["_record"]
    data = {
        "timestamp": clock(record),
        "level": record.levelname.lower(),
        "logger": shown(record.name),
        "event": shown(_message(str(event["event"]), event.get("positional_args"))),
    }
    traces = [event[name] for name in ("exception", "stack_info") if name in event]
    if traces:
        data["exception"] = shown_lines("\n".join(traces))
    return data


def _message(message: str, args: object) -> str:
    """Return a message with its arguments, or without them where it does not take them."""
    try:
        return message % args if args else message
    except Exception as error:  # noqa: BLE001  # any __str__ may fail; logging would print the raw message
        return f"{message} (without its arguments: {type(error).__name__})"


def _timestamp(record: LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")


def _text_line(_logger: WrappedLogger, _method: str, data: EventDict) -> str:
    """Return the line in Scrapy's format, with an indented traceback below it."""
    line = f"{data['timestamp']} [{data['logger']}] {data['level'].upper()}: {data['event']}"
    if "exception" not in data:
        return line
    return line + "".join(f"\n    {trace}" for trace in data["exception"].split("\n"))


class Logs:
    """Add-on of Scrapy that replaces its log handler, for every way to start a crawl.

    Scrapy would take LOG_FORMAT for a %-format. LOG_ENABLED, LOG_FILE, LOG_FILE_APPEND,
    LOG_ENCODING, LOG_LEVEL, LOG_DATEFORMAT and LOG_SHORT_NAMES keep their meaning; LOG_COLOR has
    none.
    """

    _handler: ClassVar[logging.Handler | None] = None
    _made_of: ClassVar[tuple[object, ...]] = ()
    _level: ClassVar[int] = logging.WARNING  #: level of the root logger before ``install``

    @classmethod
    def update_pre_crawler_settings(cls, settings: Any) -> None:
        """Install the handler before Scrapy would make one, and log its first line."""
        name = "LOG_INSTALL_ROOT_HANDLER"
        settings.set(name, False, priority=settings.getpriority(name) or 0)
        cls.install(settings)

    def update_settings(self, settings: Any) -> None:
        """Install the handler of a spider's own settings."""
        self.install(settings)

    @classmethod
    def install(cls, settings: Any) -> None:
        """Install the handler of these settings, unless it is installed already.

        Raises:
            SettingError: LOG_FORMAT names no format.
        """
        made_of = (
            redacted_log_format(settings),
            settings.get("LOG_DATEFORMAT"),
            settings.get("LOG_FILE"),
            settings.getbool("LOG_FILE_APPEND"),
            settings.get("LOG_ENCODING"),
            settings.getbool("LOG_ENABLED"),
            settings.get("LOG_LEVEL"),
            settings.getbool("LOG_SHORT_NAMES"),
        )
        if cls._handler in logging.root.handlers and made_of == cls._made_of:
            return
        handler = _handler(settings)
        if scrapy_log.get_scrapy_root_handler() is not None:  # by configure_logging()
            scrapy_log._uninstall_scrapy_root_handler()
        cls.uninstall()
        Logs._level = logging.root.level
        logging.root.setLevel(logging.NOTSET)
        logging.root.addHandler(handler)
        Logs._handler, Logs._made_of = handler, made_of

    @classmethod
    def uninstall(cls) -> None:
        """Remove the handler."""
        if cls._handler is not None:
            logging.root.removeHandler(cls._handler)
            cls._handler.close()
            logging.root.setLevel(cls._level)
            Logs._handler = None


def _handler(settings: Any) -> logging.Handler:
    file = settings.get("LOG_FILE")
    handler: logging.Handler
    if file:
        file_like_its_folder(Path(file))
        if not settings.getbool("LOG_FILE_APPEND"):
            Path(file).write_bytes(b"")  # once, because logging.config closes and reopens handlers
        handler = logging.FileHandler(
            file, encoding=settings.get("LOG_ENCODING"), errors="backslashreplace"
        )
    elif settings.getbool("LOG_ENABLED"):
        handler = AboveBar()
    else:
        handler = logging.NullHandler()
    handler.setLevel(settings.get("LOG_LEVEL"))
    if settings.get("LOG_LEVEL") != "DEBUG":
        handler.addFilter(_is_news)
    handler.setFormatter(
        log_formatter(redacted_log_format(settings), settings.get("LOG_DATEFORMAT"))
    )
    if settings.getbool("LOG_SHORT_NAMES"):
        handler.addFilter(_short_name)
    return handler


def _is_news(record: LogRecord) -> bool:
    """Whether a record is more than versions, settings and components, as at every start."""
    if record.name in _REPEATED:
        return False
    return record.levelno >= logging.WARNING or record.name not in _WORDY


def _short_name(record: LogRecord) -> bool:
    """Rename Scrapy's loggers to "scrapy", for LOG_SHORT_NAMES."""
    if record.name.startswith("scrapy."):
        record.name = "scrapy"
    return True

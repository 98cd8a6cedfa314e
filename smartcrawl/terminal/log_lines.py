"""The form of log lines: text or JSON, an event a line, without secrets and control characters.

Three steps make any text fit to be shown: secrets are hidden, characters that move a cursor or
break a line are escaped, and long texts are cut. Most logged text comes from web pages.

In text a message of several lines is shown on as many, if its line breaks are those of the program:
they stand in its template. Those in arguments are escaped, and lines after the first one are
indented, so that no page can write a line that looks like an event.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from logging import LogRecord
from typing import Any, Final

from smartcrawl.model.redaction import redacted_line, redacted_lines, redacted_text
from smartcrawl.model.settings_table import setting_value
from smartcrawl.terminal.bar import AboveBar

_BELOW: Final = "\n    "  #: before each line of an event after the first
_MARK: Final = "\ue000"  #: of private use, in place of a line break of a template
#: Loggers of Scrapy whose arguments are settings, components and counts as ``pprint`` writes them:
#: the line breaks are its own, and those of values are escapes.
_PRETTY: Final = frozenset(
    {"scrapy.crawler", "scrapy.middleware", "scrapy.statscollectors", "scrapy.utils.log"}
)


def printed_line_formatter(kind: str, date_format: str | None = None) -> logging.Formatter:
    """Return the formatter of log lines; ``kind`` is text or json."""
    return _JsonLines() if kind == "json" else _TextLines(datefmt=date_format)


def print_log_lines_to_stderr(settings: Mapping[str, Any], *filters: logging.Filter) -> None:
    """Log what this process does to standard error; ``filters`` may add fields to its lines."""
    handler = AboveBar()
    handler.setLevel(settings["LOG_LEVEL"])
    for one in filters:
        handler.addFilter(one)
    handler.setFormatter(printed_line_formatter(setting_value(settings, "LOG_FORMAT")))
    logging.root.addHandler(handler)
    logging.root.setLevel(settings["LOG_LEVEL"])


class _TextLines(logging.Formatter):
    """Lines in Scrapy's format, with an indented traceback below them."""

    def format(self, record: LogRecord) -> str:
        """Return the line of an event."""
        data = self.data(record)
        event = data["event"].replace("\n", _BELOW)
        line = f"{data['timestamp']} [{data['logger']}] {data['level'].upper()}: {event}"
        if "request_id" in data:
            line += f" ({data['request_id']})"
        if "exception" in data:
            line += "".join(f"{_BELOW}{trace}" for trace in data["exception"].split("\n"))
        return line

    def event(self, record: LogRecord) -> str:
        """Return the message of an event."""
        return _event_lines(str(record.msg), record.args, record.name)

    def data(self, record: LogRecord) -> dict[str, str]:
        """Return the fields of an event that are logged."""
        data = {
            "timestamp": self.formatTime(record, self.datefmt),
            "level": record.levelname.lower(),
            "logger": redacted_line(record.name),
            "event": self.event(record),
        }
        request_id = getattr(record, "request_id", None)  # of a request to the HTTP API
        if request_id is not None:
            data["request_id"] = request_id
        error = record.exc_info
        traces = [self.formatException(error)] if error and error[0] is not None else []
        if record.stack_info:
            traces.append(record.stack_info)
        if traces:
            data["exception"] = redacted_lines("\n".join(traces))
        return data


class _JsonLines(_TextLines):
    """One JSON object for each event, in ASCII for any LOG_ENCODING."""

    def format(self, record: LogRecord) -> str:
        """Return the line of an event."""
        return json.dumps(self.data(record))

    def event(self, record: LogRecord) -> str:
        """Return the message of an event on one line: programs may print it as it is."""
        return redacted_line(_message(str(record.msg), record.args))

    def formatTime(self, record: LogRecord, datefmt: str | None = None) -> str:  # noqa: N802  # logging's name
        """Return the time of an event in UTC."""
        return _timestamp(record)


def _event_lines(template: str, args: object, logger: str) -> str:
    """Return the message of an event, on several lines where its program broke them.

    A text without arguments may have come from a page: it is one line. So is a message with a
    secret, which may go on beyond a line break.
    """
    text = _message(template, args)
    if not args or "\n" not in template or redacted_text(text) != text:
        return redacted_line(text)
    if logger in _PRETTY:
        return redacted_lines(text)
    mark = _MARK
    while mark in text:
        mark += _MARK
    parts = _message(template.replace("\n", mark), args).split(mark)
    return "\n".join(map(redacted_line, parts)).rstrip()


def _message(message: str, args: object) -> str:
    """Return a message with its arguments, or without them where it does not take them."""
    try:
        return message % args if args else message
    except Exception as error:  # noqa: BLE001  # any __str__ may fail; logging would print the raw message
        return f"{message} (without its arguments: {type(error).__name__})"


def _timestamp(record: LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")

"""The form of log lines: text or JSON, an event a line, without secrets and control characters.

Three steps make any text fit to be shown: secrets are hidden, characters that move a cursor or
break a line are escaped, and long texts are cut. Most logged text comes from web pages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from logging import LogRecord
from typing import Any

from structlog.processors import JSONRenderer, format_exc_info
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, WrappedLogger

from smartcrawl.model.redaction import redacted_line, redacted_lines
from smartcrawl.model.settings_table import setting_value
from smartcrawl.terminal.bar import AboveBar


def printed_line_formatter(kind: str, date_format: str | None = None) -> logging.Formatter:
    """Return the formatter of log lines; ``kind`` is text or json."""
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


def print_log_lines_to_stderr(settings: Mapping[str, Any], *filters: logging.Filter) -> None:
    """Log what this process does to standard error; ``filters`` may add fields to its lines."""
    handler = AboveBar()
    handler.setLevel(settings["LOG_LEVEL"])
    for one in filters:
        handler.addFilter(one)
    handler.setFormatter(printed_line_formatter(setting_value(settings, "LOG_FORMAT")))
    logging.root.addHandler(handler)
    logging.root.setLevel(settings["LOG_LEVEL"])


def _as_data(
    _logger: WrappedLogger, _method: str, event: EventDict, *, clock: Callable[[LogRecord], str]
) -> EventDict:
    """Return the fields of an event that are logged."""
    record: LogRecord = event["_record"]
    data = {
        "timestamp": clock(record),
        "level": record.levelname.lower(),
        "logger": redacted_line(record.name),
        "event": redacted_line(_message(str(event["event"]), event.get("positional_args"))),
    }
    request_id = getattr(record, "request_id", None)  # of a request to the HTTP API
    if request_id is not None:
        data["request_id"] = request_id
    traces = [event[name] for name in ("exception", "stack_info") if name in event]
    if traces:
        data["exception"] = redacted_lines("\n".join(traces))
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
    if "request_id" in data:
        line += f" ({data['request_id']})"
    if "exception" not in data:
        return line
    return line + "".join(f"\n    {trace}" for trace in data["exception"].split("\n"))

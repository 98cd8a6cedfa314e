"""Log lines: text or JSON, an event a line, without secrets and control characters.

Three steps make any text fit to be shown: what is secret is hidden, what moves a cursor or breaks
a line is escaped, what is too long is cut. Web pages write most of what is logged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from logging import LogRecord
from pathlib import Path
from typing import Any, ClassVar, Final

from structlog.processors import JSONRenderer, format_exc_info
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, WrappedLogger

from smartcrawl.exceptions import SettingError
from smartcrawl.private import file_like_its_folder

#: Loggers that list versions, settings and components at every start.
_WORDY: Final = frozenset({
    "elastic_transport.transport",
    "scrapy.addons",
    "scrapy.crawler",
    "scrapy.middleware",
    "scrapy.utils.log",
})  # fmt: skip
FORMATS: Final = ("text", "json")
LONGEST: Final = 8_192  #: characters of a message, and of each line of a traceback
HIDDEN: Final = "…"  #: what stands for a secret, and for what was cut off


# What is escaped

#: Controls (C0, DEL, C1), line and paragraph separator, bidirectional controls, lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    r"""Return ``text`` on one line, with nothing in it that moves the cursor or turns the text.

    >>> escaped("Home\n2026-11-21 [root] INFO: all is well\x1b[2K\u202e")
    'Home\\n2026-11-21 [root] INFO: all is well\\x1b[2K\\u202e'
    >>> escaped("Bücher 日本")
    'Bücher 日本'
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def json_safe(text: str) -> str:
    r"""Return JSON in which nothing moves the cursor, breaks a line or turns the text.

    >>> json_safe('{"title": "a\u2028b\x85"}')
    '{"title": "a\\u2028b\\u0085"}'
    """
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


# What is hidden
#
# Repetitions are possessive (*+, ++) and nothing that they read is given back, so that every
# pattern reads a text once, whatever stands in it.

#: The user information of a URL ends at the last @ before the path. Those who follow the URL
#: standard take any number of slashes, either way round, and drop tabs and line breaks.
_AUTHORITY = re.compile(r"""((?i:\bhttps?|\bftp):[/\\]*+|[/\\]{2,}+)([^/\\?#" <>]*+)""")
#: Likewise in a URL that is a parameter of another one.
_ENCODED_AUTHORITY = re.compile(
    r"""((?:%2F){2,}+)((?:[^/\\?#" <>&%]++|%(?!2F|3F|23|26))*+)""", re.IGNORECASE
)
#: A password with / or ? or #: what seems to be a host has no number for a port.
_BROKEN_AUTHORITY = re.compile(
    r"""((?<![/\\])[/\\]{2,}+)([^/\\?#"'\s<>@:\[\]]*+:(?!\d*+(?:[/\\?#"'\s<>]|\Z))[^"\s<>@]*+@?+)"""
)

#: What precedes a name: DB_PASSWORD, sasToken and %3Ftoken name secrets, "design" does not.
_START = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?-i:(?<=[a-z0-9])(?=[A-Z])))"
_NAMES = (
    r"(?:token|secret|password|passwd|passphrase|pwd|credentials?|(?:sharedaccess)?sig(?:nature)?"
    r"|(?:api|account|private)[_-]?key|(?:aws|shared)?access[_-]?key(?:[_-]?id)?)"
)
_HEADERS = r"(?:authorization|cookies?)"
#: Between name and value: name=, "name":, ('name', …), NAME is '…'; also percent-encoded.
_BETWEEN = (
    r"""(?:(?:\\*+["'])?+[ \t]*+(?:[:=!]=*+>?+|%3[AD])[ \t]*+|\\*+["'],[ \t]*+|[ ]is[ ](?=["']))"""
)
_SCHEME = r"(?:(?:bearer|basic)[ ]++)?+"
_STRING = r"""(?:b?"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|b?'[^'\\]*+(?:\\.[^'\\]*+)*+'?+)"""
#: A value in quotes, in escaped quotes, or several in brackets; without its end all that follows.
_QUOTED = rf"""
    \[(?P<several>{_STRING}(?:,\s*+{_STRING})*+)
    |b?"{_SCHEME}(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)
    |b?'{_SCHEME}(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)
    |(?P<quote>\\{{1,31}}+["']){_SCHEME}(?P<escaped>.*?)(?:(?=(?P=quote))|\Z)
"""
_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE
_NAME = re.compile(f"{_START}(?:{_NAMES}|{_HEADERS}){_BETWEEN}", _FLAGS)
_HEADER = re.compile(
    rf"{_START}{_HEADERS}{_BETWEEN}(?:{_QUOTED}|{_SCHEME}(?P<bare>[^\r\n]++))", _FLAGS
)
_PAIR = re.compile(
    rf"{_START}{_NAMES}{_BETWEEN}(?:{_QUOTED}"
    r"""|(?P<bare>(?:[^ \t\r\n&;"<>\\]++|\\(?!["']))++))""",
    _FLAGS,
)
#: The end of a path in quotes, as in '/etc/passwd': what follows it is a sentence.
_PATH_END = re.compile(rf"""[/\\]{_NAMES}["']:[ ]\Z""", _FLAGS ^ re.VERBOSE)
_CLOSING = "',.:()[]{}"  #: at the end of a value without quotes it belongs to what is around it


def redacted(text: str) -> str:
    """Return ``text`` without secrets.

    Hidden are the user information of URLs, the values of parameters, settings and headers whose
    names say that they are secret, and what stands in Authorization and Cookie. A value that
    reads on too far is hidden too far: what was meant to be secret counts for more.

    >>> redacted("<GET https://user:pw@a.example/?page=2&access_token=8c1f&key=7>")
    '<GET https://…@a.example/?page=2&access_token=…&key=7>'
    >>> redacted("{'client_secret': 'a b', 'id': 'c'}")
    "{'client_secret': '…', 'id': 'c'}"
    >>> redacted("Authorization: Bearer 8c1f.x")
    'Authorization: Bearer …'
    >>> redacted("AccountName=docs;AccountKey=8c1f==;EndpointSuffix=a.example")
    'AccountName=docs;AccountKey=…;EndpointSuffix=a.example'
    """
    for pattern in (_ENCODED_AUTHORITY, _AUTHORITY, _BROKEN_AUTHORITY):
        text = pattern.sub(_without_user, text)
    for pattern in (_HEADER, _PAIR):
        text = pattern.sub(_without_value, text)
    return text


def _without_user(found: re.Match[str]) -> str:
    slashes, authority = found.groups()
    at = max(authority.rfind("@"), authority.rfind("%40"))
    if at < 0:
        return found[0]
    name = (_NAME.findall(authority[:at]) or [""])[-1]  # what follows the @ may be its value
    return f"{slashes}{HIDDEN}{name}{authority[at:]}"


def _without_value(found: re.Match[str]) -> str:
    assert found.lastgroup is not None
    before, value = found.start(found.lastgroup) - found.start(), found[found.lastgroup]
    if found.lastgroup == "bare":
        if _PATH_END.search(found.string, max(0, found.start() - 1), found.start() + before):
            return found[0]
        value = value.rstrip(_CLOSING)
        if not value:
            return found[0]
    return found[0][:before] + HIDDEN + found[0][before + len(value) :]


# What is cut


def shown(text: str) -> str:
    """Return ``text`` without secrets, on one line, of at most 8,192 characters."""
    text = escaped(redacted(text).rstrip())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + HIDDEN


def shown_lines(text: str) -> str:
    """Return a text of several lines, each of them as ``shown``."""
    return "\n".join(map(shown, redacted(text).rstrip().split("\n")))


# What a line looks like


def log_format(settings: Mapping[str, Any]) -> str:
    """Return the format of the log.

    Raises:
        SettingError: LOG_FORMAT names none.
    """
    value = str(settings["LOG_FORMAT"]).strip().lower()
    if value not in FORMATS:
        raise SettingError(
            f"LOG_FORMAT is {settings['LOG_FORMAT']!r}: it takes one of {', '.join(FORMATS)}"
        )
    return value


def formatter(kind: str, date_format: str | None = None) -> logging.Formatter:
    """Return what makes a line of a log record; ``kind`` is one of FORMATS."""
    json = kind == "json"
    clock = partial(logging.Formatter().formatTime, datefmt=date_format)
    return ProcessorFormatter(
        processors=[
            format_exc_info,
            partial(_told, clock=_timestamp if json else clock),
            JSONRenderer() if json else _text_line,  # in ASCII: whatever LOG_ENCODING is
        ],
        use_get_message=False,
        pass_foreign_args=True,
    )


def _told(
    _logger: WrappedLogger, _method: str, event: EventDict, *, clock: Callable[[LogRecord], str]
) -> EventDict:
    """Return what is told of an event."""
    record: LogRecord = event["_record"]
    told = {
        "timestamp": clock(record),
        "level": record.levelname.lower(),
        "logger": shown(record.name),
        "event": shown(_message(str(event["event"]), event.get("positional_args"))),
    }
    traces = [event[name] for name in ("exception", "stack_info") if name in event]
    if traces:
        told["exception"] = shown_lines("\n".join(traces))
    return told


def _message(message: str, args: object) -> str:
    """Return a message with its arguments; one that does not take them is told all the same."""
    try:
        return message % args if args else message
    except Exception as error:  # noqa: BLE001  # of any __str__; logging would print it as it is
        return f"{message} (without its arguments: {type(error).__name__})"


def _timestamp(record: LogRecord) -> str:
    when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    return when.replace("+00:00", "Z")


def _text_line(_logger: WrappedLogger, _method: str, told: EventDict) -> str:
    """Return the line of Scrapy's own format; those of a traceback below it are indented."""
    line = f"{told['timestamp']} [{told['logger']}] {told['level'].upper()}: {told['event']}"
    if "exception" not in told:
        return line
    return line + "".join(f"\n    {trace}" for trace in told["exception"].split("\n"))


# Where lines go


class Logs:
    """Add-on of Scrapy: puts our handler in the place of Scrapy's, whoever starts the crawl.

    Scrapy would take LOG_FORMAT for a %-format. What else it reads of a handler keeps its meaning,
    but LOG_COLOR: LOG_ENABLED, LOG_FILE, LOG_FILE_APPEND, LOG_ENCODING, LOG_LEVEL, LOG_DATEFORMAT
    and LOG_SHORT_NAMES.
    """

    _handler: ClassVar[logging.Handler | None] = None
    _made_of: ClassVar[tuple[object, ...]] = ()
    _level: ClassVar[int] = logging.WARNING  #: of the root logger before that

    @classmethod
    def update_pre_crawler_settings(cls, settings: Any) -> None:
        """Install the handler before Scrapy would make one, and log its first line."""
        name = "LOG_INSTALL_ROOT_HANDLER"
        settings.set(name, False, priority=settings.getpriority(name) or 0)
        cls.install(settings)

    def update_settings(self, settings: Any) -> None:
        """Follow a spider's own settings."""
        self.install(settings)

    @classmethod
    def install(cls, settings: Any) -> None:
        """Have every log line written as the settings say; again only if they say otherwise.

        Raises:
            SettingError: LOG_FORMAT names no format.
        """
        made_of = (
            log_format(settings),
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
        # By name, because what stores and extracts imports this module and knows no Scrapy.
        scrapy_log = import_module("scrapy.utils.log")
        if scrapy_log.get_scrapy_root_handler() is not None:  # configure_logging() was called
            scrapy_log._uninstall_scrapy_root_handler()
        cls.uninstall()
        Logs._level = logging.root.level
        logging.root.setLevel(logging.NOTSET)
        logging.root.addHandler(handler)
        Logs._handler, Logs._made_of = handler, made_of

    @classmethod
    def uninstall(cls) -> None:
        """Take the handler away."""
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
            Path(file).write_bytes(b"")  # once: logging.config closes handlers, to open them again
        handler = logging.FileHandler(
            file, encoding=settings.get("LOG_ENCODING"), errors="backslashreplace"
        )
    elif settings.getbool("LOG_ENABLED"):
        handler = logging.StreamHandler()
    else:
        handler = logging.NullHandler()
    handler.setLevel(settings.get("LOG_LEVEL"))
    if settings.get("LOG_LEVEL") != "DEBUG":
        handler.addFilter(_is_news)
    handler.setFormatter(formatter(log_format(settings), settings.get("LOG_DATEFORMAT")))
    if settings.getbool("LOG_SHORT_NAMES"):
        handler.addFilter(_short_name)
    return handler


def _is_news(record: LogRecord) -> bool:
    """Whether a line tells more than every start (versions, settings, components) or request."""
    return record.levelno >= logging.WARNING or record.name not in _WORDY


def _short_name(record: LogRecord) -> bool:
    """Call Scrapy's loggers "scrapy", as LOG_SHORT_NAMES wants it."""
    if record.name.startswith("scrapy."):
        record.name = "scrapy"
    return True

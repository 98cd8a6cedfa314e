"""The log handler of a crawl, in place of Scrapy's; ``terminal.log_lines`` has its form.

The egg that a job of scrapyd runs, named in the job's log.

scrapyd appends the egg to the path of Python: any other smartcrawl on it hides the egg.
"""

from __future__ import annotations

import logging
import os
import sys
import zipfile
from collections.abc import Sequence
from logging import LogRecord
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

from scrapy.utils import log as scrapy_log

import smartcrawl
from smartcrawl.engine.project_settings import apply_settings_file, end_scrapy_process
from smartcrawl.model.exceptions import SettingError, SmartcrawlError
from smartcrawl.model.settings_table import setting_value
from smartcrawl.sources.private_files import file_like_its_folder
from smartcrawl.terminal.bar import AboveBar
from smartcrawl.terminal.log_lines import printed_line_formatter

logger = logging.getLogger(__name__)


_PACKAGE: Final = "smartcrawl/__init__.py"


class DeployedEgg(NamedTuple):
    """A sentence about the code of a job of scrapyd."""

    words: str
    is_hidden: bool  #: whether other code runs than the deployed one


def log_deployed_egg() -> None:
    """Log which egg this process runs, if scrapyd started it."""
    if "scrapyd" not in sys.modules:
        return
    home = Path(smartcrawl.__file__).parents[1]
    found = deployed_egg(home, sys.path, os.environ.get("SCRAPYD_EGG_VERSION"))
    (logger.warning if found.is_hidden else logger.info)("%s", found.words)


def deployed_egg(home: Path, path: Sequence[str], version: str | None) -> DeployedEgg:
    """Return the sentence; ``home``: the place of smartcrawl, ``version``: the ordered one."""
    name = f"smartcrawl {smartcrawl.__version__}"
    eggs = [place for place in path if place.endswith(".egg") and os.path.isfile(place)]
    if not eggs:
        return DeployedEgg(f"scrapyd runs {name} from {home}, not from an egg", is_hidden=True)
    egg = Path(eggs[-1])
    deployed = f"version {version or egg.stem}"
    if egg == home:
        return DeployedEgg(f"scrapyd runs {deployed}: {name} of {egg}", is_hidden=False)
    if not _has_package(egg):  # a project that uses smartcrawl
        return DeployedEgg(f"scrapyd runs {deployed} of {egg} with {name} of {home}", False)
    return DeployedEgg(
        f"scrapyd runs {name} of {home}, and not {deployed} of {egg}, which was deployed: no"
        " deployment has an effect while its Python finds that folder first; let scrapyd run in"
        " the environment of script/setup scrapyd, and start it in a folder without a checkout",
        is_hidden=True,
    )


def _has_package(egg: Path) -> bool:
    try:
        with zipfile.ZipFile(egg) as file:
            return _PACKAGE in file.namelist()
    except (OSError, zipfile.BadZipFile):  # removed meanwhile
        return False


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
#: Scrapy's advice about a body that was cut, to store it all the same (ADR 20).
_UNWELCOME: Final = "Got data loss in "


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
        """Install the handler before Scrapy would make one."""
        name = "LOG_INSTALL_ROOT_HANDLER"
        settings.set(name, False, priority=settings.getpriority(name) or 0)
        try:
            apply_settings_file(settings)
            cls.install(settings)
        except SettingError as error:
            end_scrapy_process(error)

    def update_settings(self, settings: Any) -> None:
        """Install the handler of a spider's own settings."""
        self.install(settings)

    @classmethod
    def install(cls, settings: Any) -> None:
        """Install the handler of these settings, unless it is installed already.

        Raises:
            SettingError: LOG_FORMAT names no format, or LOG_LEVEL no level.
        """
        made_of = (
            setting_value(settings, "LOG_FORMAT"),
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
        handler, is_first = _handler(settings), cls._handler is None
        if scrapy_log.get_scrapy_root_handler() is not None:  # by configure_logging()
            scrapy_log._uninstall_scrapy_root_handler()
        cls.uninstall()
        Logs._level = logging.root.level
        logging.root.setLevel(logging.NOTSET)
        logging.root.addHandler(handler)
        Logs._handler, Logs._made_of = handler, made_of
        if is_first:
            log_deployed_egg()

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
    handler.setLevel(setting_value(settings, "LOG_LEVEL"))
    if settings.get("LOG_LEVEL") != "DEBUG":
        handler.addFilter(is_log_news)
    handler.setFormatter(
        printed_line_formatter(
            setting_value(settings, "LOG_FORMAT"), settings.get("LOG_DATEFORMAT")
        )
    )
    if settings.getbool("LOG_SHORT_NAMES"):
        handler.addFilter(_short_name)
    return handler


def is_log_news(record: LogRecord) -> bool:
    """Whether a record is news: no version, setting or component, as at every start."""
    if record.name in _REPEATED:
        return False
    if record.name.startswith("scrapy.") and str(record.msg).startswith(_UNWELCOME):
        return False  # the page has the reason
    return record.levelno >= logging.WARNING or record.name not in _WORDY


def _short_name(record: LogRecord) -> bool:
    """Rename Scrapy's loggers to "scrapy", for LOG_SHORT_NAMES."""
    if record.name.startswith("scrapy."):
        record.name = "scrapy"
    return True


def say_refused_crawls() -> None:
    """Log an error of ours in one line, where Scrapy's own command awaits no crawl."""
    for name in ("asyncio", "twisted"):
        logging.getLogger(name).addFilter(_in_one_line)  # the same one is added once


def _in_one_line(record: LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, SmartcrawlError):
        record.msg, record.args, record.exc_info = str(error), (), None
    return True

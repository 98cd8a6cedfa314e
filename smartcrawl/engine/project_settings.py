"""smartcrawl's settings in a Scrapy project of the user's own (``smartcrawl.addon``).

Settings of the project, of the spider and of the command line are stronger. In smartcrawl's own
project, whose settings module is ``smartcrawl.settings``, nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from scrapy.settings import BaseSettings, default_settings
from scrapy.utils.misc import load_object

from smartcrawl import settings as module

#: Settings that belong to a project: its name, its spiders, its commands, its add-ons.
_OF_PROJECT: Final = {
    "ADDONS", "BOT_NAME", "COMMANDS_MODULE", "NEWSPIDER_MODULE", "SPIDER_MODULES",
}  # fmt: skip
#: Settings of Scrapy that the process reads, before there is a crawler.
_OF_PROCESS: Final = {"LOG_FORMAT", "LOG_INSTALL_ROOT_HANDLER", "TWISTED_DNS_RESOLVER"}
_COMPONENTS: Final = (
    "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES", "EXTENSIONS",
)  # fmt: skip
_PRIORITY: Final = "addon"


def complete_scrapy_settings(settings: BaseSettings) -> None:
    """Add the settings that a process needs; spiders of other kinds do not notice them."""
    for name, value in _values():
        if name in _OF_PROCESS or not hasattr(default_settings, name):
            settings.set(name, value, priority=_PRIORITY)


def complete_crawler_settings(settings: BaseSettings) -> None:
    """Add all settings of a crawl: scheduler, handlers, middlewares, pipelines and extensions."""
    for name, value in _values():
        if isinstance(value, dict):
            given = dict(settings.getdict(name))
            settings.set(name, value | given, priority=settings.getpriority(name) or _PRIORITY)
        else:
            settings.set(name, value, priority=_PRIORITY)
    for name in _COMPONENTS:
        for path, place in getattr(module, name).items():
            settings.setdefault_in_component_priority_dict(name, load_object(path), place)


def _values() -> Iterator[tuple[str, Any]]:
    """Yield our settings with their values, without components and those of a project."""
    for name, value in vars(module).items():
        if name.isupper() and name not in _OF_PROJECT and name not in _COMPONENTS:
            yield name, value

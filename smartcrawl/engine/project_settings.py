"""smartcrawl's settings in a Scrapy project of the user's own (``smartcrawl.addon``).

Settings of the project, of the spider and of the command line are stronger. In smartcrawl's own
project, whose settings module is ``smartcrawl.settings``, nothing changes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings
from scrapy.utils.misc import load_object

from smartcrawl import settings as module
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.program import SCRAPYS
from smartcrawl.model.settings_file import load_settings_file
from smartcrawl.model.settings_table import SETTINGS

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
_PROJECT: Final = SETTINGS_PRIORITIES["project"]
_ASYNCIO: Final = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"
#: Why a crawl is refused that another reactor, or none, would drive.
REACTOR_REFUSAL: Final = (
    "this spider needs the asyncio reactor: leave TWISTED_REACTOR, "
    "TWISTED_REACTOR_ENABLED and FORCE_CRAWLER_PROCESS out of the settings"
)
_ADDON: Final = "smartcrawl.addon.Smartcrawl"
_OF_A_CRAWL: Final = "smartcrawl.middlewares.AddressMiddleware"  #: one that each crawl has


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


def leave_out_unused_components(settings: BaseSettings, *unused: str) -> None:
    """Take components that are switched off out of the tables: Scrapy imports them all the same.

    ``unused``: paths of others, which this crawl would switch off.
    """
    for name in _COMPONENTS:
        table, base = dict(settings.getdict(name)), dict(settings.getdict(f"{name}_BASE"))
        for path in [key for key, place in table.items() if place is None and key in base]:
            del table[path], base[path]
        for path in unused:
            table.pop(path, None)
        for changed, value in ((name, table), (f"{name}_BASE", base)):
            priority = max(settings.getpriority(changed) or 0, SETTINGS_PRIORITIES["spider"])
            settings.set(changed, value, priority=priority)


def apply_settings_file(settings: BaseSettings, *, are_ours: bool = False) -> None:
    """Take the values of smartcrawl.toml that nothing stronger gives.

    ``are_ours``: the settings are those of a command or a crawl of ours. Those of a process that
    may have other spiders keep the defaults of Scrapy.

    Raises:
        SettingError: the file cannot be used.
    """

    def is_given(name: str) -> bool:
        priority = settings.getpriority(name) or 0
        is_other = priority == _PROJECT and str(settings[name]) != str(SETTINGS[name].default)
        return name in os.environ or priority > _PROJECT + 1 or is_other

    least = SETTINGS_PRIORITIES[_PRIORITY]
    for name, value in load_settings_file(settings, is_given).values.items():
        priority = settings.getpriority(name) or 0
        if (are_ours or priority >= least) and not is_given(name):
            settings.set(name, value, priority=1 + (_PROJECT if priority >= _PROJECT else least))


def check_project_settings(spider: str, settings: BaseSettings) -> None:
    """Check that a crawl with this spider has our components; add-ons are applied after this.

    Raises:
        SettingError: the project lacks the add-on, or has a scheduler or reactor of its own.
    """
    has_reactor = settings.getbool("TWISTED_REACTOR_ENABLED")
    if not has_reactor or settings["TWISTED_REACTOR"] not in (_ASYNCIO, None):
        raise SettingError(REACTOR_REFUSAL)
    given = settings["SCHEDULER"]
    own = given == module.SCHEDULER and settings["DOWNLOADER_MIDDLEWARES"].get(_OF_A_CRAWL)
    addons = {
        _path(name) for name, place in settings.getdict("ADDONS").items() if place is not None
    }
    if not own and _ADDON not in addons:
        raise SettingError(
            f"the spider {spider} needs the smartcrawl add-on, which is missing in this "
            f'project: add ADDONS = {{"{_ADDON}": 100}} to its settings; '
            "docs/operations/project.md has all three settings of a project of your own"
        )
    is_given = (settings.getpriority("SCHEDULER") or 0) > SETTINGS_PRIORITIES[_PRIORITY]
    if is_given and not _is_scheduler_of_numbers(given):
        raise SettingError(
            f"SCHEDULER is {_path(given)!r}, but the spider {spider} needs the scheduler "
            "of smartcrawl: leave SCHEDULER out of the settings of the project, or give "
            f'this spider its own with custom_settings = {{"SCHEDULER": '
            f'"{module.SCHEDULER}"}} or -s SCHEDULER={module.SCHEDULER}'
        )


def end_scrapy_process(error: SettingError) -> NoReturn:
    """End the process with one sentence where a command of Scrapy's own drives it.

    Raises:
        SettingError: code of the user's own drives it, and may go on.
    """
    called = Path(sys.argv[0])
    if SCRAPYS in (called.stem, called.parent.name if called.name == "__main__.py" else ""):
        raise SystemExit(f"{SCRAPYS}: {error}") from error
    raise error


def _is_scheduler_of_numbers(given: Any) -> bool:
    """Whether a class, or the path of one, is that of our scheduler, or made of it."""
    try:
        found, ours = load_object(given), load_object(module.SCHEDULER)
    except (ImportError, NameError, TypeError, ValueError):
        return False
    return ours in getattr(found, "__mro__", ())  # Scrapy's schedulers call each other subclasses


def _path(name: Any) -> str:
    """Return the path of a class, which may be given as such."""
    return f"{name.__module__}.{name.__qualname__}" if isinstance(name, type) else str(name)


def _values() -> Iterator[tuple[str, Any]]:
    """Yield our settings with their values, without components and those of a project."""
    for name, value in vars(module).items():
        if name.isupper() and name not in _OF_PROJECT and name not in _COMPONENTS:
            yield name, value

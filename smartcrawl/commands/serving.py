"""Parts of the commands that serve: the key that must exist, and the program that crawls."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from smartcrawl.commands.running import PlainSettings
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.model.setting_values import CMDLINE
from smartcrawl.model.settings_table import SETTINGS
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.server.keys import api_key_exists
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.output import print_note

if TYPE_CHECKING:
    from smartcrawl.server.jobs.declared import DeclaredNames
    from smartcrawl.server.jobs.runner import CrawlProgram

_SMARTCRAWL: Final = (sys.executable, "-m", "smartcrawl", "crawl")
_SCRAPY: Final = (sys.executable, "-m", "scrapy", "crawl")  #: the name of a spider follows
#: The same for what is due of a source.
_SMARTCRAWL_DUE: Final = (sys.executable, "-m", "smartcrawl", "due")
_SCRAPY_DUE: Final = (sys.executable, "-m", "scrapy", "due")
#: The same for the steps of a library.
_SMARTCRAWL_LIBRARY: Final = (sys.executable, "-m", "smartcrawl", "library")
_SCRAPY_LIBRARY: Final = (sys.executable, "-m", "scrapy", "library")


def require_key_of_serve_command(
    connection: Connection, database: Database, server: ServerOptions
) -> None:
    """Refuse to serve where every request needs a key and there is none.

    Raises:
        SettingError: there is no key.
    """
    with database.translated("read"):
        if not server.keys_required or api_key_exists(connection, int(time.time())):
            return
    where = "behind a proxy" if server.trusted_proxies else f"at {server.host}"
    raise SettingError(
        f"{where} every request needs an API key, but there is none: make one with "
        f"{program_name()} serve --create-key NAME --scope read, or serve at 127.0.0.1 "
        "only"
    )


def print_note_of_serving_without_keys(server: ServerOptions) -> None:
    """Say that no request needs a key, where that is so: a reverse proxy would pass on any."""
    if not server.keys_required:
        print_note(
            "requests need no key here. A reverse proxy on this machine would let "
            "everyone in: before you set one up, make a key and set API_TRUSTED_PROXIES",
            command=f"{program_name()} serve --create-key NAME",
        )


def command_crawl_program(
    command: BaseCommand, options: Options, declared: DeclaredNames
) -> CrawlProgram:
    """Return the program that crawls for a server; ``declared``: knows the spiders of sources."""
    # Every start of scrapy imports this module, and its list of commands needs no server.
    from smartcrawl.server.jobs.runner import CrawlProgram  # noqa: PLC0415

    scrapy = not isinstance(command.settings, PlainSettings)  # those of a Scrapy project
    return CrawlProgram(
        _SCRAPY if scrapy else _SMARTCRAWL,
        _environment(command.settings, options),
        options.data_dir / "logs",
        _SCRAPY_DUE if scrapy else _SMARTCRAWL_DUE,
        _SCRAPY_LIBRARY if scrapy else _SMARTCRAWL_LIBRARY,
        declared.spider_of if scrapy else None,
    )


def _environment(settings: Any, options: Options) -> dict[str, str]:
    """Return the environment of crawls: that of this process, and the settings of its ``-s``."""
    given = {
        name: str(settings[name]) for name in SETTINGS if settings.getpriority(name) == CMDLINE
    }
    return dict(os.environ) | given | {"DATA_DIR": str(options.data_dir.absolute())}

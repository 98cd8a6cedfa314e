"""``smartcrawl serve``: the HTTP API, and its keys."""

from __future__ import annotations

import os
import sys
import time
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from datetime import UTC, datetime
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final

from smartcrawl.commands.running import PlainSettings
from smartcrawl.model.exceptions import SettingError, SmartcrawlError, UsageError
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.setting_values import CMDLINE
from smartcrawl.model.settings_table import SETTINGS
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, registry_database
from smartcrawl.registry.names import sources_of_name
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.server.keys import (
    MOST_KEY_DAYS,
    SCOPES,
    Key,
    Scope,
    api_key_exists,
    list_api_keys,
    make_api_key,
    revoke_api_key,
)
from smartcrawl.sources.private_files import narrow_private_data
from smartcrawl.terminal import tables
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.command import DONE, FAILED, count_argument, print_json
from smartcrawl.terminal.output import print_complaint, print_note, printed

if TYPE_CHECKING:
    from smartcrawl.server.jobs.declared import DeclaredNames
    from smartcrawl.server.jobs.runner import CrawlProgram
    from smartcrawl.server.jobs.scheduler import TickWork


_SMARTCRAWL: Final = (sys.executable, "-m", "smartcrawl", "crawl")
_SCRAPY: Final = (sys.executable, "-m", "scrapy", "crawl")  #: the name of a spider follows
#: The same for what is due of a source.
_SMARTCRAWL_DUE: Final = (sys.executable, "-m", "smartcrawl", "due")
_SCRAPY_DUE: Final = (sys.executable, "-m", "scrapy", "due")
#: The same for the steps of a library.
_SMARTCRAWL_LIBRARY: Final = (sys.executable, "-m", "smartcrawl", "library")
_SCRAPY_LIBRARY: Final = (sys.executable, "-m", "scrapy", "library")
#: The same for commands without a crawl, whose names follow.
_SMARTCRAWL_PLAIN: Final = (sys.executable, "-m", "smartcrawl")
_SCRAPY_PLAIN: Final = (sys.executable, "-m", "scrapy")


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
        _SCRAPY_PLAIN if scrapy else _SMARTCRAWL_PLAIN,
    )


def _environment(settings: Any, options: Options) -> dict[str, str]:
    """Return the environment of crawls: that of this process, and the settings of its ``-s``."""
    given = {
        name: str(settings[name]) for name in SETTINGS if settings.getpriority(name) == CMDLINE
    }
    return dict(os.environ) | given | {"DATA_DIR": str(options.data_dir.absolute())}


_DAY = 86_400  #: seconds
_COLUMNS = (
    tables.printed_word_column("id"),
    tables.printed_name_column("name"),
    tables.printed_word_column("scope"),
    tables.printed_word_column("created"),
    tables.printed_word_column("expires"),
    tables.printed_word_column("revoked"),
    tables.printed_name_column("sources"),
)


class Command(BaseCommand):
    """Serve the HTTP API, or manage its keys."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Serve pages for a browser and the HTTP API until SIGTERM or Ctrl-C. On a loopback "
            "address no key is needed; on any other address every request needs one, so make a "
            "key first. "
            "Exit status: 0 ended normally, 1 it cannot listen, or there is no key."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        for option, metavar, name in (("--host", "IP", "API_HOST"), ("--port", "N", "API_PORT")):
            help_text = f"{SETTINGS[name].meaning} ({name}, default: {SETTINGS[name].default})"
            parser.add_argument(option, metavar=metavar, help=help_text)
        parser.add_argument("--open", action="store_true", help="open the pages in a browser")
        keys = parser.add_mutually_exclusive_group()
        keys.add_argument("--create-key", metavar="NAME", help="make a key and print it once")
        keys.add_argument("--list-keys", action="store_true", help="list the keys")
        keys.add_argument("--revoke-key", metavar="ID", help="revoke a key")
        parser.add_argument("--scope", choices=SCOPES, help="scope of a new key (default: read)")
        parser.add_argument(
            "--sources",
            metavar="NAMES",
            help="sources that a new key reads, as in docs,wiki (default: the public ones)",
        )
        parser.add_argument(
            "--expires-days", type=count_argument, metavar="N", help="days until a new key expires"
        )
        parser.add_argument(
            "--format", choices=("text", "json"), default="text", help="default: text"
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Serve, or manage keys; print errors as messages."""
        if args:
            raise UsageError(
                f"unexpected argument {redacted_line(args[0])!r}: serve takes options only"
            )
        if opts.create_key is None and (opts.scope or opts.expires_days or opts.sources):
            raise UsageError("--scope, --sources and --expires-days need --create-key NAME")
        if opts.open and (opts.create_key is not None or opts.list_keys or opts.revoke_key):
            raise UsageError("--open is for a server, not for its keys")
        if opts.sources is not None and opts.scope == Scope.ADMIN.name.lower():
            raise UsageError("--sources is not for --scope admin, which reads every source")
        if opts.scope == Scope.SEARCH.name.lower() and opts.sources is None:
            raise UsageError(
                "--scope search needs --sources NAMES: each visitor of a page can read its key, "
                "so the key names what may be found with it"
            )
        if opts.expires_days is not None and opts.expires_days > MOST_KEY_DAYS:
            raise UsageError(f"--expires-days takes at most {MOST_KEY_DAYS:,} days")
        try:
            options = Options.of(self.settings)
            narrow_private_data(options.data_dir)
            database = registry_database(options.registry)
            with printed():
                if opts.create_key is not None or opts.list_keys or opts.revoke_key is not None:
                    with closing(database.open()) as connection, database.translated("write"):
                        _manage(connection, opts)
                else:
                    self._serve(options, database, opts)
            self.exitcode = DONE
        except SmartcrawlError as error:
            print_complaint("serve", str(error))
            self.exitcode = FAILED

    def _serve(self, options: Options, database: Database, opts: Namespace) -> None:
        # Every start of scrapy imports this module; FastAPI takes longer than a search.
        from smartcrawl.server.app import create_app  # noqa: PLC0415
        from smartcrawl.server.jobs.declared import DeclaredNames  # noqa: PLC0415
        from smartcrawl.server.jobs.scheduler import SchedulerThread  # noqa: PLC0415
        from smartcrawl.server.limits import RequestCounts  # noqa: PLC0415
        from smartcrawl.server.running import (  # noqa: PLC0415
            listening_server_socket,
            log_server_to_stderr,
            serve_api,
            server_url,
        )

        server = ServerOptions.of(_with_options(self.settings, opts))
        if server.keys_required:
            with closing(database.open()) as connection:
                require_key_of_serve_command(connection, database, server)
        log_server_to_stderr(self.settings)
        with closing(listening_server_socket(server)) as listening:
            url = server_url(listening)
            if opts.format == "json":
                print_json({"url": url, "pid": os.getpid(), "keysRequired": server.keys_required})
            else:
                print_note(f"serving at {url}/ (pages and API); stop with Ctrl-C")
                print_note_of_serving_without_keys(server)
            if opts.open:
                Thread(target=open_pages_in_browser, args=(url,), daemon=True).start()
            sys.stdout.flush()  # the program that started this one may wait for the address
            declared = DeclaredNames(*options.source_files)
            program = command_crawl_program(self, options, declared)
            works = _works(server, database, program, declared)
            scheduler = SchedulerThread(database, works, time.time)
            counts = RequestCounts(server)
            app = create_app(options, server, ending=scheduler.ending, counts=counts)
            with _sending(options, database, scheduler.ending):
                serve_api(app, listening, server, counts, scheduler)


def _sending(options: Options, database: Database, ending: Event) -> AbstractContextManager[None]:
    """Send notices while the block runs, in a thread of its own: a target may hang."""
    if not options.notify:
        return nullcontext()
    from smartcrawl.run.notices import notice_tick  # noqa: PLC0415  # as above
    from smartcrawl.server.jobs.scheduler import SchedulerThread  # noqa: PLC0415

    tick = partial(notice_tick, options, ending.is_set)
    return SchedulerThread(database, [tick], time.time, ending=ending).running()


def open_pages_in_browser(url: str) -> None:
    """Open the pages in the browser of this machine; a program without a window waits for it."""
    here = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    if not webbrowser.open(f"{here}/"):
        print_complaint("serve", f"no browser was found here: open {here}/ in one")


def _works(
    server: ServerOptions, database: Database, program: CrawlProgram, declared: DeclaredNames
) -> list[TickWork]:
    """Return the steps of each tick of the scheduler: orders, jobs of libraries, other jobs."""
    from smartcrawl.server.explained.orders import RemovalOrders  # noqa: PLC0415
    from smartcrawl.server.items import (  # noqa: PLC0415
        DueRuns,
        Rebuilding,
    )
    from smartcrawl.server.jobs.clock import JobClock  # noqa: PLC0415
    from smartcrawl.server.jobs.library_store import LibraryWork  # noqa: PLC0415
    from smartcrawl.server.jobs.runner import (  # noqa: PLC0415
        Crawls,
        LocalCrawls,
        Runner,
    )
    from smartcrawl.server.jobs.scheduler import (  # noqa: PLC0415
        BegunRun,
        CrawlRuns,
        JobScheduler,
    )
    from smartcrawl.server.jobs.scrapyd import (  # noqa: PLC0415
        ScrapydClient,
        ScrapydCrawls,
    )

    most = server.max_running_jobs
    due, libraries = LocalCrawls(database, program), LocalCrawls(database, program)
    removals = LocalCrawls(database, program)
    crawls: Crawls[BegunRun] = LocalCrawls(database, program)
    if server.scrapyd_url:
        client = ScrapydClient(server.scrapyd_url, server.scrapyd_project)
        crawls = ScrapydCrawls(database, client, declared.spider_of)

    def jobs(connection: Connection) -> Callable[[int], None]:
        runner = Runner(database, CrawlRuns(database, connection), crawls, most)
        return JobScheduler(JobClock(database, connection, declared), runner).tick

    return [
        lambda at: Rebuilding(database, at).steps,
        lambda at: Runner(database, RemovalOrders(database, at), removals, most).tick,
        lambda at: Runner(database, DueRuns(database, at), due, most).tick,
        lambda at: Runner(database, LibraryWork(database, at), libraries, most).tick,
        jobs,
    ]


def _with_options(settings: Any, opts: Namespace) -> dict[str, Any]:
    """Return the settings with the options of the command line."""
    names = {"API_HOST": opts.host, "API_PORT": opts.port}
    given = {name: value for name, value in names.items() if value is not None}
    return dict(settings) | given


def _manage(connection: Connection, opts: Namespace) -> None:
    """Make, list or revoke keys.

    Raises:
        SettingError: the name is empty, or no key has the id.
    """
    now = int(time.time())
    if opts.create_key is not None:
        _create(connection, opts, now)
    elif opts.revoke_key is not None:
        if not revoke_api_key(connection, opts.revoke_key, now):
            raise SettingError(
                f"there is no valid key with the id {redacted_line(opts.revoke_key)!r}; "
                f"to list the keys: {program_name()} serve --list-keys"
            )
        if opts.format == "json":
            print_json({"id": opts.revoke_key, "revoked": _when(now)})
        else:
            print_note(f"revoked {opts.revoke_key}; servers refuse it within 5 seconds")
    else:
        rows = [_row(key) for key in list_api_keys(connection)]
        if opts.format == "json":
            print_json(rows)
        else:
            empty = f"no keys yet; make one with: {program_name()} serve --create-key NAME"
            tables.print_table(_COLUMNS, [_shown(row) for row in rows], empty=empty)


def _create(connection: Connection, opts: Namespace, now: int) -> None:
    name = redacted_line(opts.create_key.strip())
    if not name:
        raise SettingError("--create-key takes a name for the key, such as grafana")
    expires = now + opts.expires_days * _DAY if opts.expires_days else None
    scope = Scope[(opts.scope or "read").upper()]
    sources = _sources(connection, opts.sources)
    text, key = make_api_key(connection, name, scope, now, expires=expires, sources=sources)
    if opts.format == "json":
        print_json(_row(key) | {"key": text})
        return
    print(text)
    print_note(f"the key of {name} ({key.scope.name.lower()}) is shown only once: keep it safe")
    stored = stored_visibilities(connection)
    unknown = [one for one in key.sources if one not in stored]
    if unknown:
        print_note(f"no source is called {', '.join(unknown)} yet: the key will read what gets it")


def _row(key: Key) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "scope": key.scope.name.lower(),
        "created": _when(key.created),
        "expires": _when(key.expires),
        "revoked": _when(key.revoked),
        "sources": list(key.sources) or None,
    }


def _sources(connection: Connection, names: str | None) -> list[str]:
    """Return the sources of ``--sources``; a host means those of all of its ports.

    Raises:
        SettingError: there is no name.
    """
    if names is None:
        return []
    stored, found = list(stored_visibilities(connection)), dict[str, None]()
    for name in filter(None, map(str.strip, names.split(","))):
        found |= dict.fromkeys(sources_of_name(name, stored) or [redacted_line(name)])
    if not found:
        raise SettingError("--sources takes names of sources, as in docs,wiki")
    return list(found)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    listed = ", ".join(row["sources"]) if row["sources"] else "all" * (row["scope"] == "admin")
    values = row | {"sources": listed or "public ones"}
    return {name: "-" if value is None else value for name, value in values.items()}


def _when(seconds: int | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

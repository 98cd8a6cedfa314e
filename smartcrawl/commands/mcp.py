"""``smartcrawl mcp``: the crawled pages for language models, by the Model Context Protocol."""

from __future__ import annotations

import signal
import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from smartcrawl.commands.serve import (
    command_crawl_program,
    print_note_of_serving_without_keys,
    require_key_of_serve_command,
)
from smartcrawl.model.exceptions import SettingError, SmartcrawlError, UsageError
from smartcrawl.model.garbage import freeze_loaded_objects
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.model.options import Options
from smartcrawl.model.program import extra_installation
from smartcrawl.model.redaction import redacted_line
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.sources.private_files import narrow_private_data
from smartcrawl.terminal.base_command import BaseCommand
from smartcrawl.terminal.command import DONE, FAILED, base_command_missing_registry
from smartcrawl.terminal.output import print_complaint, print_note

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from smartcrawl.server.stores import Stores


class Command(BaseCommand):
    """Answer the calls of MCP clients until they are gone."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Serve the crawled pages over the Model Context Protocol: tools to search, "
            "to fetch a page as Markdown and to list the sources. Without --http it uses "
            "standard input and output, as MCP clients start it, and ends with its "
            "client. With --http it serves /mcp until SIGTERM or Ctrl-C: without a key "
            "on a loopback address, with the keys of the HTTP API on any other. It needs "
            "the extra mcp. Exit status: 0 ended normally, 1 it cannot listen, or the "
            "registry, a key or the extra is missing."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        parser.add_argument(
            "--http",
            metavar="HOST:PORT",
            help="serve over HTTP at this address; port 0: any free port",
        )
        parser.add_argument(
            "--allow-refresh",
            action="store_true",
            help="add the tool refresh, which crawls a known source again",
        )

    def run(self, args: list[str], opts: Namespace) -> None:
        """Serve; print errors as messages."""
        if args:
            raise UsageError(
                f"unexpected argument {redacted_line(args[0])!r}: mcp takes options only"
            )
        try:
            at = None if opts.http is None else _address(self.settings, opts.http)
            options = Options.of(self.settings)
            database = registry_database(options.registry)
            if not database.exists():
                raise base_command_missing_registry(database)
            narrow_private_data(options.data_dir)
            _require_package()
            # Every start of scrapy imports this module, and few commands need a server.
            from smartcrawl.server.stores import Stores  # noqa: PLC0415

            with closing(database.reports(options.trackers)) as connection:
                if at is not None:
                    require_key_of_serve_command(connection, database, at)
            with closing(Stores(options.registry, only_reading=True)) as stores:
                if at is None:
                    from smartcrawl.terminal.log_lines import print_log_lines_to_stderr  # noqa: PLC0415

                    print_log_lines_to_stderr(self.settings)  # the SDK logs by itself otherwise
                    self._serve_client(self._server(stores, options, opts))
                else:
                    self._serve_http(stores, options, at, opts)
            self.exitcode = DONE
        except SmartcrawlError as error:
            print_complaint("mcp", str(error))
            self.exitcode = FAILED

    def _server(self, stores: Stores, options: Options, opts: Namespace) -> MCPServer[Any]:
        from smartcrawl.server.mcp.tools import create_mcp_server  # noqa: PLC0415

        refresher = None
        if opts.allow_refresh:
            from smartcrawl.server.jobs.declared import DeclaredNames  # noqa: PLC0415
            from smartcrawl.server.mcp.tools import McpRefresher  # noqa: PLC0415

            declared = DeclaredNames(*options.source_files)
            program = command_crawl_program(self, options, declared)
            refresher = McpRefresher(stores, options, program)
        return create_mcp_server(stores, options, refresher)

    def _serve_client(self, server: MCPServer[Any]) -> None:
        """Serve the client at standard input and output; all else goes to standard error."""
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a thread that waits for input hears no other
        freeze_loaded_objects()
        server.run("stdio")

    def _serve_http(
        self, stores: Stores, options: Options, at: ServerOptions, opts: Namespace
    ) -> None:
        from smartcrawl.server.limits import RequestCounts  # noqa: PLC0415
        from smartcrawl.server.mcp.app import MCP_PATH, create_mcp_app  # noqa: PLC0415
        from smartcrawl.server.running import (  # noqa: PLC0415
            listening_server_socket,
            log_server_to_stderr,
            serve_api,
            server_url,
        )

        log_server_to_stderr(self.settings)
        with closing(listening_server_socket(at)) as listening:
            print_note(f"serving at {server_url(listening)}{MCP_PATH}; stop with Ctrl-C")
            print_note_of_serving_without_keys(at)
            sys.stdout.flush()  # the program that started this one may wait for the address
            counts = RequestCounts(at)
            mcp = self._server(stores, options, opts)
            app = create_mcp_app(mcp, stores, options, at, counts=counts)
            serve_api(app, listening, at, counts)


def _address(settings: Any, text: str) -> ServerOptions:
    """Return the options of a server at an address.

    Raises:
        UsageError: it is no address with a port.
        SettingError: the host is no address of a machine, or the port is none.
    """
    host, colon, port = text.rpartition(":")
    if not (host and colon and port.isdecimal()):
        raise UsageError(
            f"--http takes HOST:PORT, such as 127.0.0.1:8090, not {redacted_line(text)!r}"
        )
    return ServerOptions.of(dict(settings) | {"API_HOST": host, "API_PORT": port})


def _require_package() -> None:
    """Refuse to serve without the package that knows the protocol.

    Raises:
        SettingError: it is not installed.
    """
    if find_spec("mcp") is None:
        raise SettingError(f"the package mcp is not installed: {extra_installation('mcp')}")

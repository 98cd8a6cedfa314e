"""``smartcrawl hosts``: the hosts of the registry, and which of them are blocked."""

from __future__ import annotations

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smartcrawl.extract.robots_txt import is_robots_txt
from smartcrawl.model.exceptions import RegistryError, UsageError
from smartcrawl.model.program import program_name
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import delete_host_block_row, host_rows, store_host_block_row
from smartcrawl.terminal.command import RegistryCommand, print_json
from smartcrawl.terminal.output import print_note
from smartcrawl.terminal.tables import (
    print_table,
    printed_name_column,
    printed_note_column,
    printed_number_column,
    printed_word_column,
)


class Command(RegistryCommand):
    """List the hosts, and block or unblock one."""

    def syntax(self) -> str:
        """Return its usage."""
        return "[options]"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "List the hosts of all pages: the share of visits without a response, the "
            "delay between two requests, the requests in flight during a crawl, until "
            "when the host gets no request, its last Retry-After, and the state of its "
            "robots.txt. A blocked host gets no request at all: its pages count as "
            "excluded, and their stored content stays searchable."
        )

    def add_options(self, parser: ArgumentParser) -> None:
        """Add its options."""
        super().add_options(parser)
        switch = parser.add_mutually_exclusive_group()
        switch.add_argument("--block", metavar="HOST", help="send no more requests to HOST")
        switch.add_argument("--unblock", metavar="HOST", help="send requests to HOST again")
        parser.add_argument(
            "--reason", metavar="TEXT", help="with --block: the reason, shown in the list"
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the hosts, or block or unblock one."""
        if opts.reason is not None and opts.block is None:
            raise UsageError("--reason needs --block HOST")
        if opts.block is not None:
            host = hosts_command_argument(opts.block)
            with self._writing() as writable:
                store_host_block_row(writable, host, opts.reason)
            print_note(
                f"{host} is blocked: from the next run on, it gets no request. Its pages "
                "count as excluded; their stored content stays searchable until the "
                "rules for excluded pages remove it. To unblock it:",
                command=f"{program_name()} hosts --unblock {host}",
                gap=1,
            )
        elif opts.unblock is not None:
            host = hosts_command_argument(opts.unblock)
            with self._writing() as writable:
                unblocked = delete_host_block_row(writable, host)
            if unblocked:
                print_note(f"{host} is no longer blocked; the next run requests its pages again")
            else:
                print_note(f"{host} was not blocked; nothing changed. {_blocked(connection)}")
        else:
            found = host_rows(
                connection,
                sources=sources,
                is_running=self.database.is_held,
                is_robots_txt=is_robots_txt,
            )
            rows = list(found)
            if opts.format == "json":
                print_json(rows)
            else:
                print_table(COLUMNS, [hosts_command_row(row) for row in rows], empty="no hosts yet")

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """Open the registry for writing as well; blocking a host needs no lease."""
        with self.database.translated("write"):
            connection = self.database.open()
            try:
                yield connection
            finally:
                connection.close()


#: Columns of the table; ``--format json`` has more.
COLUMNS = (
    printed_name_column("host"),
    printed_number_column("pages"),
    printed_word_column("errors"),
    printed_word_column("delay"),
    printed_word_column("inFlight", "in flight"),
    printed_word_column("robots"),
    printed_word_column("blocked"),
    printed_note_column("held", "no request"),
    printed_note_column("retryAfter", "Retry-After"),
    printed_note_column("robotsNote", "robots.txt"),
    printed_note_column("distrusted"),
    printed_note_column("blockReason", "blocked because"),
)


def hosts_command_row(row: dict[str, Any]) -> dict[str, Any]:
    """Format a host for the table."""
    held = []
    if row["parkedUntil"] is not None:
        held.append(f"parked until {row['parkedUntil']}: no response")
    if row["pausedUntil"] is not None:
        held.append(f"until {row['pausedUntil']}, as the host requested")
    return {
        "host": row["host"],
        "pages": row["pages"],
        "errors": f"{row['errorRate']:.0%}",
        "delay": None if row["delayMs"] is None else f"{row['delayMs'] / 1000:g} s",
        "inFlight": str(row["inFlight"] or ""),
        "held": "down for this run" if row["down"] else ", ".join(held) or None,
        "retryAfter": (
            None if row["retryAfter"] is None else f"{row['retryAfter']} s at {row['retryAfterAt']}"
        ),
        "robots": row["robots"] or "not requested",
        "blocked": "yes" if row["blocked"] else None,
        "robotsNote": row["robotsError"],
        "distrusted": "; ".join(row["distrusted"]),
        "blockReason": row["blockReason"] if row["blocked"] else None,
    }


def hosts_command_argument(value: str) -> str:
    """Return the name that the registry has for a host, as the operator wrote it.

    Raises:
        RegistryError: it is no host.
    """
    written = "write its name, and the port unless it is 80 or 443: example.com, 127.0.0.1:8000"
    address = re.match(r"https?://", value, re.IGNORECASE)
    plain = re.fullmatch(r"[^\s/?#@\\]+", value) is not None
    try:
        host = url_host_key(value if address else f"http://{value}/")
    except ValueError:
        raise RegistryError(f"{value!r} is not a host: {written}") from None
    if not plain:
        meant = f"; did you mean {host}?" if address and host else ""
        raise RegistryError(f"{value!r} is not a host: {written}{meant}")
    return host


def _blocked(connection: Connection) -> str:
    names = [row["host"] for row in host_rows(connection) if row["blocked"]]
    return f"Blocked: {', '.join(names)}" if names else "No host is blocked"

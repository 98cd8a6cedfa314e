"""A server process: its socket, its log, and its end in order."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from ipaddress import ip_address
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.server.jobs.scheduler import SchedulerThread
from smartcrawl.server.limits import RequestCounts
from smartcrawl.server.request_ids import WithRequestId
from smartcrawl.server.wire import Wire
from smartcrawl.terminal.log_lines import print_log_lines_to_stderr

_GRACE = 10  #: seconds in which requests may end after SIGTERM
_BACKLOG = 2_048
_REMEDIES: Mapping[int, str] = {
    errno.EADDRINUSE: "another program listens there: end it, or choose another port with --port",
    errno.EACCES: "this user may not listen there: choose a port from 1024 on with --port",
    errno.EADDRNOTAVAIL: "this machine has no such address: name one of its own with --host",
}


class ListenError(SmartcrawlError):
    """The server cannot listen at its address."""


def listening_server_socket(server: ServerOptions) -> socket.socket:
    """Return a socket that listens.

    Raises:
        ListenError: another program has the port, or the address is not of this machine.
    """
    family = socket.AF_INET6 if ip_address(server.host).version == 6 else socket.AF_INET
    try:
        listening = socket.create_server(
            (server.host, server.port), family=family, backlog=_BACKLOG
        )
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "choose another address with --host or --port")
        place = f"{server.host} port {server.port}"
        raise ListenError(f"cannot listen at {place} ({error.strerror}); {remedy}") from error
    # Accepted sockets inherit it. asyncio sets it only where the protocol is given by its number;
    # without, each answer of a connection that stays open but the first waits 40 ms for an ACK.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def server_url(listening: socket.socket) -> str:
    """Return the address that clients ask."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """A server that ends its scheduler with the signal, before the last requests."""

    def __init__(self, config: uvicorn.Config, scheduler: SchedulerThread | None) -> None:
        super().__init__(config)
        self._scheduler = scheduler

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; a crawl that gets the same signal is not taken for one that ended by itself."""
        if self._scheduler is not None:
            self._scheduler.end()
        super().handle_exit(sig, frame)


def serve_api(
    app: ASGIApp,
    listening: socket.socket,
    server: ServerOptions,
    counts: RequestCounts,
    scheduler: SchedulerThread | None = None,
) -> None:
    """Answer requests, and with a scheduler start jobs, until SIGTERM or SIGINT.

    Requests under way may end before; crawls go on. ``counts``: those of ``app``.
    """
    config = uvicorn.Config(
        app,
        http=partial(Wire, unread=counts.unread),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,  # its lines have queries, and no ids
        server_header=False,
        # By default uvicorn believes the X-Forwarded-For of any process of this machine.
        proxy_headers=bool(server.trusted_proxies),
        forwarded_allow_ips=[str(network) for network in server.trusted_proxies],
        timeout_graceful_shutdown=_GRACE,
        ws="none",
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ended)  # uvicorn raises it again when all is done
    with nullcontext() if scheduler is None else scheduler.running():
        _Server(config, scheduler).run(sockets=[listening])


def _ended(_number: int, _frame: object) -> None:
    """End in order: the process has nothing left to do."""


def log_server_to_stderr(settings: Mapping[str, Any]) -> None:
    """Log to standard error, with the id of the request in each line of one."""
    print_log_lines_to_stderr(settings, WithRequestId())

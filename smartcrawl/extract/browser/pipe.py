"""The protocol of a browser over its pipe: commands with answers, and events (CDP)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

Event = Callable[[str, Mapping[str, Any], str], None]  #: gets method, parameters, session
_END: Final = b"\0"  #: of a message
_LONGEST: Final = 256 * 1024 * 1024  #: bytes of a message of the browser


class BrowserError(Exception):
    """The browser is missing, does not start, or has ended."""


class CommandError(Exception):
    """The browser refused a command, for example of a page that is gone."""


class BrowserPipe(asyncio.Protocol):
    """The two ends of the pipe of one browser, in the event loop that opened it."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()  #: of the browser
        self._writer: asyncio.WriteTransport | None = None
        self._reader: asyncio.BaseTransport | None = None
        self._begun = bytearray()  #: of a message, up to here
        self._count = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._listeners: dict[str, Event] = {}

    async def open(self, read: int, write: int) -> None:
        """Take the two descriptors."""
        loop = asyncio.get_running_loop()
        self._reader, _ = await loop.connect_read_pipe(lambda: self, os.fdopen(read, "rb", 0))
        writer = os.fdopen(write, "wb", 0)
        self._writer, _ = await loop.connect_write_pipe(asyncio.Protocol, writer)

    async def send(self, method: str, session: str = "", **parameters: Any) -> dict[str, Any]:
        """Send a command, and return the browser's answer.

        Raises:
            CommandError: the browser refused it.
            BrowserError: the browser has ended.
        """
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._write(method, session, parameters)] = future
        return await future

    def notify(self, method: str, session: str = "", **parameters: Any) -> None:
        """Send a command whose answer does not count."""
        if not self.ended.done():
            self._write(method, session, parameters)

    def _write(self, method: str, session: str, parameters: Mapping[str, Any]) -> int:
        """Write a command, and return its number."""
        if self.ended.done() or self._writer is None:
            raise BrowserError("the browser has ended")
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self._writer.write(json.dumps(message).encode() + _END)
        return self._count

    def listen(self, session: str, event: Event) -> None:
        """Have the events of a session handled."""
        self._listeners[session] = event

    def leave(self, session: str) -> None:
        """Ignore the events of a session from now on."""
        self._listeners.pop(session, None)

    def data_received(self, data: bytes) -> None:
        """Take bytes of the browser, and carry out the messages that are whole."""
        *whole, rest = data.split(_END)
        for part in whole:
            message = bytes(self._begun) + part
            self._begun.clear()
            self._take(json.loads(message))
        self._begun += rest
        if len(self._begun) > _LONGEST:
            self.close()

    def _take(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            listener = self._listeners.get(message.get("sessionId", ""))
            if listener is not None:
                listener(message["method"], message["params"], message.get("sessionId", ""))
            return
        future = self._waiting.pop(message["id"], None)
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(CommandError(message["error"]["message"]))
        else:
            future.set_result(message["result"])

    def connection_lost(self, _: Exception | None) -> None:
        """End the commands that wait."""
        if not self.ended.done():
            self.ended.set_result(None)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(BrowserError("the browser has ended"))
        self._waiting.clear()

    def close(self) -> None:
        """Close both ends, which ends the browser, too."""
        for end in (self._writer, self._reader):
            if end is not None:
                end.close()

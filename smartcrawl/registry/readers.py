"""The readers of one source, over a connection of their own."""

from __future__ import annotations

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.host_facts import HostReader
from smartcrawl.registry.page_contents import ContentReader
from smartcrawl.registry.pages import PageReader
from smartcrawl.registry.run_progress import RunProgressReader


class RegistryReaders:
    """The readers of the event loop: they see committed data and wait for no writer."""

    def __init__(self, connection: Connection, source: int) -> None:
        self.pages = PageReader(connection, source)
        self.contents = ContentReader(connection, source)
        self.hosts = HostReader(connection, source)
        self.progress = RunProgressReader(connection, source)
        self._connection = connection

    def close(self) -> None:
        """Close the connection; the last one of a file leaves no write-ahead log behind."""
        self._connection.close()

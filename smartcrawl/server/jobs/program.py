"""The commands that a server starts, each in a session of its own (ADR 53).

They are those of a user: the crawl of a source by its name, or a step of a library. A process
outlives its server, and the next server finds it again.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from smartcrawl.sources.private_files import private_file, private_folder


@dataclass(frozen=True, slots=True)
class CrawlProgram:
    """The commands that processes are started with."""

    words: Sequence[str]  #: that crawl a source of a job; the arguments of the spider follow
    environment: Mapping[str, str]  #: settings of the crawl, also secret ones
    logs: Path  #: folder of its logs
    due: Sequence[str] = ()  #: words of the command that crawls what is due of a source
    library: Sequence[str] = ()  #: words of the command of a library's steps
    #: Returns the spider of a source, which follows the words; None: the command knows it.
    spider_of: Callable[[str], str] | None = None

    def due_log_of(self, name: str) -> Path:
        """Return the log of the ordered runs of a source."""
        return self.logs / f"due-{name}.log"

    def start_refresh(self, name: str) -> subprocess.Popen[bytes]:
        """Start the crawl of all pages of a source, due or not.

        The command of what is due knows every source by its name, also one that no file declares.

        Raises:
            OSError: as of ``start``.
        """
        words = [*self.due, f"--source={name}", "-s", "RECRAWL_POLICY=always"]
        return self.start(words, self.due_log_of(name))

    def start(self, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """Start a command; what it prints goes to a log.

        Raises:
            OSError: it cannot be started, or the log cannot be written.
        """
        private_folder(self.logs)
        private_file(log)
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  # words of ours, and checked names
                [*words, "--progress", "none"],
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

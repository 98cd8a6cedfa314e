"""Calls that wait for a server, and that another thread can end."""

from __future__ import annotations

from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

_T = TypeVar("_T")


class GivenUpError(Exception):
    """A call was given up before its answer came."""


class Waiting(Generic[_T]):
    """Makes each call in a thread of its own.

    To close a connection does not wake the thread that reads from it. So that thread stays until
    its answer or its timeout comes, and keeps no process from its end; its caller goes on.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: set[SimpleQueue[_T | BaseException]] = set()
        self._is_over = False

    def made(self, call: Callable[[], _T], seconds: float | None = None) -> _T:
        """Return the result of a call, for which ``seconds`` are waited; None: as long as it takes.

        Raises:
            GivenUpError: ``give_up`` was called, before or meanwhile.
            TimeoutError: it takes longer.
        """
        ended: SimpleQueue[_T | BaseException] = SimpleQueue()

        def work() -> None:
            try:
                ended.put(call())
            except BaseException as error:  # noqa: BLE001  # the caller gets it
                ended.put(error)

        with self._lock:
            if self._is_over:
                raise GivenUpError
            self._open.add(ended)
        Thread(target=work, name="embedding", daemon=True).start()
        try:
            found = ended.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        finally:
            with self._lock:
                self._open.discard(ended)
        if isinstance(found, BaseException):
            raise found
        return found

    def give_up(self) -> None:
        """End all calls that wait, and every later one."""
        with self._lock:
            self._is_over = True
            for ended in self._open:
                ended.put(GivenUpError())

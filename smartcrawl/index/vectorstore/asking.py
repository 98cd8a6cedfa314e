"""Requests to a vector store that wait for it where it is away, and end with the process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from smartcrawl.index.vectorstore.api import AbsentError, VectorStoreApi
from smartcrawl.index.vectorstore.ports import ListedFile
from smartcrawl.model.exceptions import PushError
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.patience import AwayError, Patience

_T = TypeVar("_T")


def vector_store_patience(
    options: VectorStoreOptions,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Patience:
    """Return the patience for a store; an outage that takes too long is a PushError."""
    host = options.destination

    def spent(failure: AwayError, _: float) -> PushError:
        return PushError(
            f"{host} accepts no files now ({failure}); the next push continues from here"
        )

    return Patience(options.away, host, spent, clock=clock, sleep=sleep)


class StoreAsking:
    """Asks a store, one request after the other."""

    def __init__(
        self,
        api: VectorStoreApi,
        options: VectorStoreOptions,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        is_ending: Callable[[], bool],
    ) -> None:
        """``clock`` measures seconds, ``sleep`` waits for as many."""
        self.api, self.options, self.clock = api, options, clock
        self._is_ending = is_ending
        self.patience = vector_store_patience(options, clock, sleep)

    def ask(self, request: Callable[[], _T]) -> _T:
        """Return the answer to a request that may be repeated.

        Raises:
            PushError: the server is away for too long, or the process ends.
        """
        self.check_ending()
        return self.patience.ask(request)

    def check_ending(self) -> None:
        """Check that the push may go on.

        Raises:
            PushError: the process ends.
        """
        if self._is_ending():
            raise PushError("the process is ending; the next push continues from here")

    def found(self, file: str) -> ListedFile | None:
        """Return a file of the store; None: it is not attached.

        Raises:
            AbsentError: the store is gone.
        """
        try:
            return self.ask(lambda: self.api.attached(file))
        except AbsentError:
            self.ask(self.api.check_store)
            return None

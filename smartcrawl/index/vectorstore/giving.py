"""Giving files to a store: uploads and attachments, several at the same time.

Threads make requests, and nothing else: every row is written by the thread of the push, an intent
before its upload, and an id once the answer is there. A request that fails is repeated by the
thread of the push, which alone waits for a server that is away (ADR 89).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple

from smartcrawl.index.outage import AwayError
from smartcrawl.index.vectorstore.api import AbsentError, RefusedError
from smartcrawl.index.vectorstore.asking import StoreAsking
from smartcrawl.index.vectorstore.ports import (
    HASH,
    ListedFile,
    Pushed,
    StoredFile,
    StoreItem,
    StoreItems,
    UploadedFile,
    vector_store_attribute,
)
from smartcrawl.index.vectorstore.rows import StoreRows
from smartcrawl.model.exceptions import PushError


class Refusal(Enum):
    """Reasons why a store does not have a file that was given to it."""

    UPLOAD = auto()  #: the server does not take it
    ATTACHMENT = auto()  #: the store does not
    LOST = auto()  #: the server lost it before it was attached


class Given(NamedTuple):
    """The end of giving one file: the store lists it, or refuses it."""

    file: StoredFile
    listed: ListedFile | None  #: None: it is refused
    refusal: Refusal | None = None
    why: str = ""


@dataclass(slots=True)
class _Upload:
    file: StoredFile
    item: StoreItem
    answer: Future[UploadedFile]
    at: float  #: time at which it was begun


@dataclass(slots=True)
class _Attachment:
    file: StoredFile
    answer: Future[ListedFile]
    at: float  #: time at which it was begun


class Giving:
    """Uploads items to a server and attaches their files to a store."""

    def __init__(
        self, asking: StoreAsking, rows: StoreRows, items: StoreItems, pushed: Pushed
    ) -> None:
        """``pushed``: figures, in which uploads are counted."""
        self._asking, self._rows, self._items, self._pushed = asking, rows, items, pushed
        self._api = asking.api
        self._most: Final = asking.options.concurrency
        self._threads = ThreadPoolExecutor(self._most)
        self._begun: deque[_Upload | _Attachment] = deque()
        self._waited = asking.clock()  #: time of the end of the last wait for the server

    def upload(self, item: StoreItem) -> None:
        """Begin to upload an item; its body is kept open until it is done."""
        self._asking.check_ending()
        file = self._rows.intend(item)
        if not isinstance(item.body, bytes):  # it is closed when the next item is asked for
            item = item._replace(body=os.fdopen(os.dup(item.body.fileno()), "rb"))
        answer = self._threads.submit(self._send, file, item)
        self._begun.append(_Upload(file, item, answer, self._asking.clock()))

    def attach(self, file: StoredFile) -> None:
        """Begin to attach a file that is uploaded."""
        self._asking.check_ending()
        given = self._attributes(file)
        answer = self._threads.submit(self._api.attach, file.file or "", given)
        self._begun.append(_Attachment(file, answer, self._asking.clock()))

    def ended(self, *, all_: bool = False) -> Iterator[Given]:
        """Yield the files whose giving has ended, until fewer than the most are under way.

        ``all_``: until none is.
        """
        while self._begun and (all_ or len(self._begun) >= self._most):
            begun = self._begun.popleft()
            if isinstance(begun, _Attachment):
                yield self._attached(begun)
                continue
            try:
                found = self._uploaded(begun)
            finally:
                _release(begun.item)
            if isinstance(found, Given):
                yield found
            else:
                self.attach(found)

    def close(self) -> None:
        """Wait for requests that are under way, and record what they uploaded."""
        self._threads.shutdown(cancel_futures=True)
        for begun in self._begun:
            if not isinstance(begun, _Upload):
                continue
            _release(begun.item)
            if not begun.answer.cancelled() and begun.answer.exception() is None:
                self._rows.note_upload(begun.file, begun.answer.result())
                self._pushed.uploaded += 1
        self._begun.clear()

    # Uploads

    def _uploaded(self, begun: _Upload) -> StoredFile | Given:
        """Return an uploaded file; one that the server refuses has come to its end.

        An upload without an answer may have been made: another try is another intent.
        """
        file, item, request, at = begun.file, begun.item, begun.answer.result, begun.at
        while True:
            try:
                found = request()
            except AwayError as failure:
                self._wait(failure, at)
                if not failure.was_refused:
                    file = self._rows.intend(item)
            except RefusedError as error:
                self._asking.patience.end_outage()
                why = f"the server refuses it: {error}"
                self._items.note_refused(file.version, why)
                self._rows.drop([file])
                return Given(file, None, Refusal.UPLOAD, why)
            except AbsentError as error:
                self._rows.drop([file])
                raise PushError(
                    f"{self._asking.options.destination} takes no files ({error}): check"
                    " VECTOR_STORE_URL"
                ) from None
            else:
                self._asking.patience.end_outage()
                self._pushed.uploaded += 1
                return self._rows.note_upload(file, found)
            self._asking.check_ending()
            request, at = partial(self._send, file, item), self._asking.clock()

    def _send(self, file: StoredFile, item: StoreItem) -> UploadedFile:
        return self._api.upload(file.name, item.body, item.media_type)

    # Attachments

    def _attributes(self, file: StoredFile) -> dict[str, str]:
        given = {name: value for name, value in self._items.marks.items() if value}
        given[self._items.key] = vector_store_attribute(file.version.url)
        given[HASH] = file.version.hash.hex()
        return given

    def _attached(self, begun: _Attachment) -> Given:
        """Return an attached file; an attempt without an answer, or refused, may have been made."""
        file = begun.file
        try:
            return Given(file, self._listed(begun))
        except AbsentError:
            self._asking.ask(self._api.check_store)
            self._rows.drop([file])
            return Given(file, None, Refusal.LOST, "the server lost its file")
        except RefusedError as error:
            return Given(file, None, Refusal.ATTACHMENT, f"the store refuses it: {error}")

    def _listed(self, begun: _Attachment) -> ListedFile:
        id_, given = begun.file.file or "", self._attributes(begun.file)
        request, at = begun.answer.result, begun.at
        patience = self._asking.new_patience()  # the server may answer everything else
        while True:
            try:
                return request()
            except (AwayError, RefusedError) as error:
                if isinstance(error, AwayError):
                    self._wait(error, at, patience.wait)
                found = self._asking.found(id_)
                if found is not None:
                    return found
                if isinstance(error, RefusedError):
                    raise
            self._asking.check_ending()
            request, at = partial(self._api.attach, id_, given), self._asking.clock()

    def _wait(
        self, failure: AwayError, at: float, wait: Callable[[AwayError], None] | None = None
    ) -> None:
        """Wait for the server, unless a wait has ended since the request began, ``at``.

        Requests that are made at the same time fail at the same time.
        """
        if at < self._waited:
            return
        (wait or self._asking.patience.wait)(failure)
        self._waited = self._asking.clock()


def _release(item: StoreItem) -> None:
    """Close the body of an item that is done."""
    if not isinstance(item.body, bytes):
        item.body.close()

"""A push: makes a vector store equal to the pages of a source, and survives its death anywhere.

Giving files to a store: uploads and attachments, several at the same time.

Threads make requests, and nothing else: every row is written by the thread of the push, an intent
before its upload, and an id once the answer is there. A request that fails is repeated by the
thread of the push, which alone waits for a server that is away (ADR 89).

Intent first: a row with a unique id before an upload, the id of the file at once after it. Then the
file is attached, and completed, before the one of the former version is detached. Pages that are
gone leave first. The account keeps the files, as other stores may use them; it loses only those
whose embedding failed now. Source: ADR 77, 97.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Final, NamedTuple

from smartcrawl.index.vectorstore.api import AbsentError, RefusedError, StoreAsking, VectorStoreApi
from smartcrawl.index.vectorstore.ports import (
    HASH,
    FileStatus,
    ItemVersion,
    ListedFile,
    Pushed,
    PushPlan,
    StoredFile,
    StoreItem,
    StoreItems,
    UploadedFile,
    vector_store_attribute,
)
from smartcrawl.index.vectorstore.reading import (
    StoreReader,
    status_of_vector_store_file,
    vector_store_items_together,
    vector_store_push_plan,
)
from smartcrawl.index.vectorstore.rows import StoreRows, vector_store_files, vector_store_number
from smartcrawl.model.exceptions import PushError
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.patience import AwayError
from smartcrawl.registry.connection import Connection

logger = logging.getLogger(__name__)


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
        """Wait for requests that are under way, and record what they uploaded.

        The intent of an upload that was never sent is dropped: no later push has to look for it.
        """
        self._threads.shutdown(cancel_futures=True)
        for begun in self._begun:
            if not isinstance(begun, _Upload):
                continue
            _release(begun.item)
            if begun.answer.cancelled():
                self._rows.drop([begun.file])
            elif begun.answer.exception() is None:
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
                self._asking.patience.over()
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
                self._asking.patience.over()
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
        # The server may answer everything else.
        patience = self._asking.patience.at_most(self._asking.options.away)
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


class LookedRows:
    """The rows of a store and a source, whose changes stay in memory."""

    def __init__(
        self, connection: Connection, *, url: str, store: str, source: int, now: int
    ) -> None:
        """``now``: Unix seconds."""
        self._connection, self._source, self._now = connection, source, now
        self._store = vector_store_number(connection, url, store)

    def files(self, versions: Mapping[int, ItemVersion]) -> list[StoredFile]:
        """Return the rows, the oldest intent first; equal versions are shared, by record.no."""
        if self._store is None:
            return []
        return vector_store_files(self._connection, self._store, self._source, versions)

    def adopt(self, found: ListedFile, version: ItemVersion, status: FileStatus) -> StoredFile:
        """Return the row of a file of ours that is in the store, and that no row has."""
        return StoredFile.adopted(found, version, status, self._now)

    def note_upload(self, file: StoredFile, found: UploadedFile) -> StoredFile:
        """Return a file with the id that the server gave to it."""
        return file.uploaded(found)

    def note_listed(self, file: StoredFile, status: FileStatus, listed: ListedFile) -> StoredFile:
        """Return a file with its status, and since when it is attached."""
        return file.listed(status, listed)

    def note(self, files: Iterable[StoredFile], status: FileStatus) -> list[StoredFile]:
        """Return files with their status."""
        return [file._replace(status=status) for file in files]

    def drop(self, files: Sequence[StoredFile]) -> None:
        """Forget nothing: these files are asked for once."""


class PushPreview:
    """The work of one push of one source to one store, counted."""

    def __init__(
        self,
        rows: LookedRows,
        items: StoreItems,
        options: VectorStoreOptions,
        *,
        now: int,
        is_full: bool = False,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """``now``: Unix seconds. ``is_full``: every item is given anew."""
        self._rows, self._items, self._options = rows, items, options
        self._now, self._is_full, self._is_ending = now, is_full, is_ending

    def counted(self, api: VectorStoreApi | None) -> Pushed:
        """Return the figures of a push now; ``api`` None: the store is still to be made."""
        pushed = Pushed(is_dry=True)
        try:
            self._count(api, pushed)
        except PushError as error:
            pushed.error = str(error)
        except (AbsentError, RefusedError) as error:
            pushed.error = f"{self._options.destination} refuses the list of its files ({error})"
        return pushed

    def _count(self, api: VectorStoreApi | None, pushed: Pushed) -> None:
        reader = None
        if api is not None:
            clock, sleep, is_ending = time.monotonic, time.sleep, self._is_ending
            asking = StoreAsking(api, self._options, clock=clock, sleep=sleep, is_ending=is_ending)
            reader = StoreReader(api, self._rows, asking.ask, self._now)
        plan = vector_store_push_plan(reader, self._items, pushed, is_full=self._is_full)
        given = {item.version.no for item in vector_store_items_together(self._items, plan.missing)}
        attached = [file for file in plan.under_way if file.status is FileStatus.UPLOADED]
        done = given | {file.version.no for file in plan.under_way}
        pushed.uploaded, pushed.completed = len(given), len(done)
        pushed.attached = len(given) + len(attached)
        former = [file for no in done for file in plan.former.get(no, ())]
        listed = reader.listed if reader is not None else {}
        lost = reader.lost if reader is not None else set()
        going = (*plan.leaving, *former)
        pushed.detached = sum(file.file in listed for file in going)
        pushed.left = sum(file.is_our_upload and file.file not in lost for file in going)


_IN_FLIGHT: Final = 64  #: files that the store embeds at the same time
_FIRST_LOOK: Final = 0.1  #: seconds before files are looked at again; doubled each time
_LONGEST_LOOK: Final = 5.0

Report = Callable[[int], None]  #: takes the number of pages that are done


class Push:
    """One push of one source to one store. The caller has the lease of the store."""

    def __init__(
        self,
        api: VectorStoreApi,
        rows: StoreRows,
        items: StoreItems,
        options: VectorStoreOptions,
        *,
        now: int,
        is_full: bool = False,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        report: Report = lambda number: None,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """``now``: Unix seconds; ``clock`` measures seconds, ``sleep`` waits for as many.

        ``is_full``: every item is given anew, beside the file that the store has of it.
        """
        self._api, self._rows, self._items, self._options = api, rows, items, options
        self._clock, self._sleep = clock, sleep
        self._report, self._is_full = report, is_full
        self._asking = StoreAsking(api, options, clock=clock, sleep=sleep, is_ending=is_ending)
        self._ask = self._asking.ask
        self._reader = StoreReader(api, rows, self._ask, now)
        self._pushed = Pushed()
        self._flying: dict[str, StoredFile] = {}  #: by the ids of files that the store embeds
        self._former: dict[int, list[StoredFile]] = {}  #: by record.no
        self._moved = clock()  #: time at which a file was embedded last

    def run(self) -> Pushed:
        """Push, and return what was done; ``error`` says why the rest was not."""
        try:
            self._work()
        except PushError as error:
            self._pushed.error = str(error)
        except AbsentError as error:
            self._pushed.error = self._gone(error)
        except RefusedError as error:
            self._pushed.error = (
                f"{self._options.destination} refuses a request of the push ({error}): check"
                " VECTOR_STORE_URL and VECTOR_STORE_ID; nothing was changed since"
            )
        self._pushed.in_progress = [file.version.url for file in self._flying.values()]
        return self._pushed

    def _work(self) -> None:
        plan = vector_store_push_plan(
            self._reader, self._items, self._pushed, is_full=self._is_full
        )
        self._former = plan.former
        self._report_done()
        self._remove(plan.leaving)
        self._give(plan)
        self._settle(until=0)
        self._remove_late()

    # Removing

    def _remove(self, files: Iterable[StoredFile], *, are_failed: bool = False) -> None:
        """Detach files; each is marked first, so that a later push goes on.

        ``are_failed``: their embedding failed in this push, and the account loses them, too
        (R3-86).
        """
        files = list(files)
        unmarked = [file for file in files if file.status is not FileStatus.LEAVING]
        self._rows.note(unmarked, FileStatus.LEAVING)
        names = self._rows.shown_names(files) if files else {}
        for file in files:
            id_ = file.file
            assert id_ is not None, "the plan leaves out files without an id"
            try:
                was_there = self._is_gone_after(self._api.detach, id_)
                if are_failed:
                    self._is_gone_after(self._api.delete, id_)
            except RefusedError as error:
                self._fail(file, f"its file {id_} cannot be removed: {error}")
                continue
            if are_failed or id_ in self._reader.lost:
                self._rows.drop([file])
            else:
                self._rows.leave([file])
                self._pushed.left += file.is_our_upload
            self._pushed.detached += was_there
            if was_there:
                name = names.get(file.intent) or file.version.url
                logger.info("%s (%s) is removed from the vector store", name, id_)

    def _is_gone_after(self, request: Callable[[str], None], id_: str) -> bool:
        """Remove a file, and return whether it was there."""
        try:
            self._ask(lambda: request(id_))
        except AbsentError:
            self._ask(self._api.check_store)
            return False
        return True

    def _remove_late(self) -> None:
        """Leave uploads of this push that got no answer, and were made nevertheless."""
        if self._rows.has_unanswered():
            files = self._rows.files()
            known = {file.intent for file in files if file.file is not None}
            found = self._reader.recovered(files)
            self._remove(file for file in found if file.intent not in known)

    # Giving

    def _give(self, plan: PushPlan) -> None:
        """Upload the pages that the store lacks, and attach those that it does not embed yet."""
        giving = Giving(self._asking, self._rows, self._items, self._pushed)
        try:
            for file in plan.under_way:
                self._make_room()
                if file.status is FileStatus.UPLOADED:
                    giving.attach(file)
                    self._take(giving.ended())
                else:
                    self._flying[file.file or ""] = file
            for item in vector_store_items_together(self._items, plan.missing):
                self._make_room()
                giving.upload(item)
                self._take(giving.ended())
            self._take(giving.ended(all_=True))
        finally:
            giving.close()

    def _take(self, ended: Iterable[Given]) -> None:
        """Take files whose giving has ended: the store embeds them, or refuses them."""
        for given in ended:
            file = given.file
            if given.listed is not None:
                self._pushed.attached += 1
                attached = self._rows.note_listed(file, FileStatus.ATTACHED, given.listed)
                self._flying[given.listed.id] = attached
                self._look(attached, given.listed)
            elif given.refusal is Refusal.ATTACHMENT:
                self._end(file, given.why, is_refused=True)
            else:
                self._fail(file, given.why)
                if given.refusal is Refusal.UPLOAD:
                    self._remove_former(file)

    # Waiting

    def _make_room(self) -> None:
        if len(self._flying) >= _IN_FLIGHT:
            self._settle(until=_IN_FLIGHT // 2)

    def _settle(self, *, until: int) -> None:
        """Wait until the store embeds at most ``until`` files.

        Raises:
            PushError: it has finished none for VECTOR_STORE_WAIT_SECONDS.
        """
        self._moved = self._clock()
        pause = _FIRST_LOOK
        while len(self._flying) > until:
            before = len(self._flying)
            for file in list(self._flying.values()):
                found = self._asking.found(file.file or "")
                if found is None:
                    self._end(file, "another program detached it")
                else:
                    self._look(file, found)
            if len(self._flying) < before:
                self._moved, pause = self._clock(), _FIRST_LOOK
            if len(self._flying) <= until:
                return
            if self._clock() + pause - self._moved > self._options.wait:
                raise PushError(
                    f"the vector store has not embedded any file for {self._options.wait} "
                    "s (VECTOR_STORE_WAIT_SECONDS); the next push continues from here"
                )
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_LOOK)

    def _look(self, file: StoredFile, found: ListedFile) -> None:
        """Record the status of a file: completed, the former version leaves; failed, it does."""
        match status_of_vector_store_file(found):
            case FileStatus.COMPLETED:
                del self._flying[found.id]
                self._rows.note_completed(file)
                self._pushed.completed += 1
                self._remove(self._former.pop(file.version.no, []))
                self._report_done()
            case FileStatus.LEAVING:
                why = f"the store could not embed it: {found.error or found.status}"
                self._end(file, why, is_refused=True)

    def _end(self, file: StoredFile, why: str, *, is_refused: bool = False) -> None:
        """Give up a file in this push, and remove it."""
        self._flying.pop(file.file or "", None)
        if is_refused:
            self._items.note_refused(file.version, why)
        self._fail(file, why)
        self._remove([file], are_failed=is_refused)
        self._remove_former(file)

    def _remove_former(self, file: StoredFile) -> None:
        """Remove the former files of an item that is not tried again (R3-86)."""
        if self._items.keeps_former:
            return
        self._remove(self._stale(file))
        self._former.pop(file.version.no, None)

    def _stale(self, file: StoredFile) -> list[StoredFile]:
        """Return the former files of a page that have other bytes than it has now."""
        former = self._former.get(file.version.no, [])
        return [one for one in former if one.version.hash != file.version.hash]

    def _fail(self, file: StoredFile, why: str) -> None:
        more = ""
        if self._items.keeps_former and self._former.get(file.version.no):
            more = "; its old version stays"
        elif self._stale(file):
            more = "; its old version was removed as well"
        self._pushed.failed.append((file.version.url, f"{why}{more}"))

    # Words

    def _gone(self, error: AbsentError) -> str:
        return (
            f"{self._options.destination} has no vector store {self._options.store} "
            f"({error}): set {self._items.place_of_store} to an existing one; nothing was "
            "created or removed since"
        )

    def _report_done(self) -> None:
        self._report(self._pushed.unchanged + self._pushed.completed)

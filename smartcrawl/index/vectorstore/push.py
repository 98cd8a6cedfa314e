"""A push: makes a vector store equal to the pages of a source, and survives its death anywhere.

Intent first: a row with a unique id before an upload, the id of the file at once after it. Then the
file is attached, and completed, before the one of the former version is detached. Pages that are
gone leave first. The account keeps the files, as other stores may use them; it loses only those
whose embedding failed now. Source: ADR 77, 97.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from smartcrawl.index.vectorstore.api import AbsentError, RefusedError, VectorStoreApi
from smartcrawl.index.vectorstore.asking import StoreAsking
from smartcrawl.index.vectorstore.giving import Given, Giving, Refusal
from smartcrawl.index.vectorstore.plan import PushPlan
from smartcrawl.index.vectorstore.ports import (
    FileStatus,
    ListedFile,
    Pushed,
    StoredFile,
    StoreItems,
)
from smartcrawl.index.vectorstore.reading import (
    StoreReader,
    status_of_vector_store_file,
    vector_store_items_together,
    vector_store_push_plan,
)
from smartcrawl.index.vectorstore.rows import StoreRows
from smartcrawl.model.exceptions import PushError
from smartcrawl.model.vector_store_options import VectorStoreOptions

logger = logging.getLogger(__name__)

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
                    f"the vector store has embedded no file for {self._options.wait} s"
                    f" (VECTOR_STORE_WAIT_SECONDS): the next push goes on from here"
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
            more = "; its former version stays"
        elif self._stale(file):
            more = "; its former version was removed, too"
        self._pushed.failed.append((file.version.url, f"{why}{more}"))

    # Words

    def _gone(self, error: AbsentError) -> str:
        return (
            f"{self._options.destination} has no vector store {self._options.store} ({error}): set"
            f" {self._items.place_of_store} to one that is there; nothing was made or removed since"
        )

    def _report_done(self) -> None:
        self._report(self._pushed.unchanged + self._pushed.completed)

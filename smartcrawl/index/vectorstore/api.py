"""Requests to an OpenAI-compatible vector store, the kinds of their failure, and their patience.

Only an answer proves that a file is absent: 404, or 400 with "not found". A connection that fails,
401, 403 and 5xx never do. A list counts only when it was read to its end.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from sys import intern
from typing import Any, BinaryIO, Final, TypeVar

import httpx2  # the HTTP client of the SDK
import openai
from openai.types import FileObject
from openai.types.vector_stores import VectorStoreFile

from smartcrawl.index.openai_sdk import (
    openai_away_error,
    openai_client,
    openai_error_message,
    openai_headers,
    openai_lasting_remedy,
    openai_text_shown,
)
from smartcrawl.index.vectorstore.ports import (
    DOMAIN,
    HASH,
    ITEM,
    SOURCE,
    URL,
    ListedFile,
    ListedStore,
    UploadedFile,
)
from smartcrawl.model.exceptions import PushError
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.patience import AwayError, Patience

TIMEOUT: Final = 120.0  #: seconds without a byte of an answer
_INTENT: Final = "smartcrawl_intent"  #: in the metadata of a store
_OURS: Final = (DOMAIN, SOURCE, URL, ITEM, HASH)  #: names of attributes
_PAGE: Final = 100  #: files in one answer
_ABSENT: Final = re.compile(r"\bnot[ _]found\b|does not exist|no such", re.IGNORECASE)


class AbsentError(Exception):
    """The server says that it does not have the file, or the store."""


class RefusedError(Exception):
    """The server refuses this request; others may succeed."""


class VectorStoreApi:
    """A vector store on a server. Its ``repr`` and its errors contain no key."""

    def __init__(
        self,
        options: VectorStoreOptions,
        key: str,
        *,
        timeout: float = TIMEOUT,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare the client; it connects with the first request.

        ``key`` empty: none is sent. ``now`` is Unix time, in seconds.
        """
        self._store, self._host, self._key = options.store, options.destination, key
        self._timeout, self._now = timeout, now
        self._headers = openai_headers(key)
        self._client = openai_client(options, key, timeout=timeout)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def check_store(self) -> None:
        """Ask for the store itself.

        Raises:
            AbsentError: it is gone.
        """
        with self._translated():
            found = self._client.vector_stores.retrieve(self._store, extra_headers=self._headers)
            self._check(found.id == self._store)

    def create_store(self, name: str, *, domain: str, intent: str) -> str:
        """Make a store with a name, and return its id; ``intent`` makes it known again."""
        with self._translated():
            found = self._client.vector_stores.create(
                name=name, metadata={DOMAIN: domain, _INTENT: intent}, extra_headers=self._headers
            )
            return self._id(found)

    def store_of(self, intent: str) -> str | None:
        """Return the store that ``create_store`` made for an intent; None: it made none."""
        after: str | None = None
        while True:
            stores, more = self.stores_page(after)
            for store in stores:
                if store.intent == intent:
                    return store.id
            if not more or stores[-1].id == after:
                return None
            after = stores[-1].id

    def stores_page(self, after: str | None) -> tuple[list[ListedStore], bool]:
        """Return stores of the account, those after ``after``, and whether more follow."""
        with self._translated():
            page = self._client.vector_stores.list(
                limit=_PAGE, after=after or openai.omit, extra_headers=self._headers
            )
            stores = [
                ListedStore(store.id, str((store.metadata or {}).get(_INTENT, "")))
                for store in self._checked(page)
            ]
            return stores, bool(page.has_more)

    def listed_page(self, after: str | None) -> tuple[list[ListedFile], bool]:
        """Return files of the store, those after the file ``after``, and whether more follow."""
        with self._translated():
            page = self._client.vector_stores.files.list(
                self._store,
                limit=_PAGE,
                after=after or openai.omit,
                extra_headers=self._headers,
            )
            return [_listed(file) for file in self._checked(page)], bool(page.has_more)

    def uploaded_page(self, after: str | None) -> tuple[list[UploadedFile], bool]:
        """Return files of the account, attached or not, as ``exported_listing_page`` does."""
        with self._translated():
            page = self._client.files.list(
                purpose="assistants",
                limit=_PAGE,
                after=after or openai.omit,
                extra_headers=self._headers,
            )
            return [_uploaded(file) for file in self._checked(page)], bool(page.has_more)

    def upload(self, name: str, body: bytes | BinaryIO, media_type: str) -> UploadedFile:
        """Upload a file; one that is open is sent from its beginning, in parts."""
        if not isinstance(body, bytes):
            body.seek(0)
        with self._translated():
            found = self._client.files.create(
                file=(name, body, media_type),
                purpose="assistants",
                extra_headers=self._headers,
            )
            self._id(found)
            return _uploaded(found)

    def attach(self, file: str, attributes: Mapping[str, str]) -> ListedFile:
        """Attach a file to the store with attributes that say what it is."""
        with self._translated():
            found = self._client.vector_stores.files.create(
                self._store,
                file_id=file,
                attributes=dict(attributes),
                extra_headers=self._headers,
            )
            self._check(found.id == file)
            return _listed(found)

    def attached(self, file: str) -> ListedFile:
        """Return a file of the store.

        Raises:
            AbsentError: it is not attached, or the store is gone.
        """
        with self._translated():
            found = self._client.vector_stores.files.retrieve(
                file, vector_store_id=self._store, extra_headers=self._headers
            )
            self._check(found.id == file)
            return _listed(found)

    def detach(self, file: str) -> None:
        """Remove a file from the store."""
        with self._translated():
            self._client.vector_stores.files.delete(
                file, vector_store_id=self._store, extra_headers=self._headers
            )

    def check_upload(self, file: str) -> None:
        """Ask for a file of the account.

        Raises:
            AbsentError: the account does not have it.
        """
        with self._translated():
            found = self._client.files.retrieve(file, extra_headers=self._headers)
            self._check(found.id == file)

    def delete(self, file: str) -> None:
        """Delete a file of the account."""
        with self._translated():
            self._client.files.delete(file, extra_headers=self._headers)

    def _checked(self, page: Any) -> list[Any]:
        """Return the entries of a page of a list; an unsound page is no answer."""
        self._check(isinstance(page.data, list) and page.has_more in (None, True, False))
        for entry in page.data:
            self._id(entry)
        self._check(not page.has_more or bool(page.data))  # else there is no way to the rest
        return list(page.data)

    def _id(self, found: Any) -> str:
        file = getattr(found, "id", None)
        self._check(isinstance(file, str) and bool(re.fullmatch(r"[\w.:-]{1,200}", file)))
        return str(file)

    def _check(self, is_sound: bool) -> None:
        if not is_sound:
            raise AwayError("its answer is none of this API")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn the errors of the SDK into ours."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._failure(error) from None
        except openai.APITimeoutError:
            raise AwayError(f"no answer within {self._timeout:g} s") from None
        except openai.APIConnectionError as error:
            reason = self.shown(f"no connection: {error.__cause__ or error}")
            raise AwayError(reason) from None
        except httpx2.HTTPError as error:
            raise AwayError(self.shown(f"its answer broke off: {error}")) from None
        except (openai.OpenAIError, ValueError, TypeError, AttributeError):
            raise AwayError("its answer is none of this API") from None

    def _failure(self, error: openai.APIStatusError) -> Exception:
        """Return the error for an answer with an error status."""
        status, words = error.status_code, openai_error_message(error)
        message = self.shown(f"{status}, {words}")
        if remedy := openai_lasting_remedy(error, "VECTOR_STORE_URL", self._key):
            return self._lasting(message, remedy)
        if away := openai_away_error(error, message, self._now()):
            return away
        if status == 404 or (status == 400 and _ABSENT.search(words)):
            return AbsentError(message)
        return RefusedError(message)

    def shown(self, text: str) -> str:
        """Return text of the server for a message, without the key."""
        return openai_text_shown(text, self._key)

    def _lasting(self, message: str, remedy: str) -> PushError:
        return PushError(f"{self._host} refuses the push ({message}): {remedy}")


def _listed(file: VectorStoreFile) -> ListedFile:
    attributes = file.attributes if isinstance(file.attributes, dict) else {}
    error = getattr(file.last_error, "message", None) or getattr(file.last_error, "code", None)
    ours = {name: str(value) for name in _OURS if (value := attributes.get(name))}
    since = int(getattr(file, "created_at", None) or 0)  # 0: the server does not say
    return ListedFile(file.id, intern(str(file.status)), str(error or ""), ours, since)


def _uploaded(file: FileObject) -> UploadedFile:
    return UploadedFile(file.id, str(file.filename), int(file.bytes), int(file.created_at))


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

"""Uploads of this registry that no vector store of the account has any more (ADR 97).

A push takes files out of its store, and leaves them in the account, where other stores may have
them. Here they are found, by the lists of all stores, and deleted on order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from smartcrawl.index.vectorstore.ports import UploadedFile
from smartcrawl.index.vectorstore.rows import (
    count_left_uploads_elsewhere,
    forget_uploads,
    left_upload_ids,
    store_upload_ids,
)
from smartcrawl.model.exceptions import PushError
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.registry.connection import Connection
from smartcrawl.run.pushing import run_push_key

if TYPE_CHECKING:
    from smartcrawl.index.vectorstore.api import VectorStoreApi
    from smartcrawl.index.vectorstore.reading import Ask


@dataclass(slots=True)
class LeftUploads:
    """The uploads that were found, the oldest first, and what became of them."""

    files: list[UploadedFile]
    elsewhere: int = 0  #: uploads that were left at other servers
    deleted: int = 0
    refused: list[tuple[str, str]] = field(default_factory=list)  #: ids, and why


class RunLeftUploads:
    """Finds and deletes uploads at one server."""

    def __init__(
        self,
        connection: Connection,
        server: VectorStoreOptions,
        *,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """``server``: options without a store.

        Raises:
            SettingError: a package or the key is missing, or the key cannot be one.
        """
        key = run_push_key(server, environment)
        # Commands that ask no store do without these.
        from smartcrawl.index.vectorstore.api import VectorStoreApi  # noqa: PLC0415
        from smartcrawl.index.vectorstore.asking import vector_store_patience  # noqa: PLC0415

        self._connection, self._server = connection, server
        patience = vector_store_patience(server)
        self._ask: Ask = patience.ask
        self._api: Callable[[str], VectorStoreApi] = lambda store: VectorStoreApi(
            replace(server, store=store), key
        )

    def found(self) -> LeftUploads:
        """Return the uploads that no store has; each list is read to its end.

        Raises:
            PushError: one of them cannot be read to its end, which proves nothing.
        """
        from smartcrawl.index.vectorstore.api import AbsentError, RefusedError  # noqa: PLC0415
        from smartcrawl.index.vectorstore.reading import (  # noqa: PLC0415
            read_vector_store_to_end,
            vector_store_pages_to_end,
        )

        url = self._server.url
        ids, by_store = (
            left_upload_ids(self._connection, url),
            store_upload_ids(self._connection, url),
        )
        try:
            with closing(self._api("")) as api:
                stores = read_vector_store_to_end(self._ask, api.stores_page).keys()
                uploads = read_vector_store_to_end(self._ask, api.uploaded_page)
            for store in by_store.keys() - stores:
                if self._is_gone(store):
                    ids |= by_store[store]
            for store in stores:
                if not ids:
                    break
                with closing(self._api(store)) as api:
                    for page in vector_store_pages_to_end(self._ask, api.listed_page):
                        ids.difference_update(file.id for file in page)
        except (AbsentError, RefusedError) as error:
            raise PushError(
                f"{self._server.destination} refuses the list of its stores, or of the files of"
                f" one ({error})"
            ) from error
        files = sorted(
            (file for id_, file in uploads.items() if id_ in ids),
            key=lambda file: (file.created_at, file.id),
        )
        return LeftUploads(files, count_left_uploads_elsewhere(self._connection, url))

    def _is_gone(self, store: str) -> bool:
        from smartcrawl.index.vectorstore.api import AbsentError  # noqa: PLC0415

        with closing(self._api(store)) as api:
            try:
                self._ask(api.check_store)
            except AbsentError:
                return True
        return False

    def delete(self, found: LeftUploads) -> None:
        """Delete uploads, and note in ``found`` what became of them.

        Raises:
            PushError: the server is away for too long; those before are deleted.
        """
        from smartcrawl.index.vectorstore.api import AbsentError, RefusedError  # noqa: PLC0415

        with closing(self._api("")) as api:
            for file in found.files:
                try:
                    self._ask(lambda: api.delete(file.id))  # noqa: B023  # called at once
                except AbsentError:
                    pass  # another program was first
                except RefusedError as error:
                    found.refused.append((file.id, str(error)))
                    continue
                else:
                    found.deleted += 1
                forget_uploads(self._connection, self._server.url, [file.id])

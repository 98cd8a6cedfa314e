"""The step embed of a library: its vector store is made equal to 02_embedded (R3-80 to R3-86)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime

from smartcrawl.index.vectorstore.ports import Pushed, StoredFile
from smartcrawl.index.vectorstore.rows import StoreRows
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.embedding import embed_failure_rows
from smartcrawl.registry.library.items import library_rows
from smartcrawl.run.library.embedded_items import EmbeddedItems
from smartcrawl.run.library.maps import LibraryMaps
from smartcrawl.run.library.metadata import LibraryMetadata
from smartcrawl.run.library.result import Embedded, LibraryResult
from smartcrawl.run.library.steps import LibraryStep
from smartcrawl.run.pushing import run_left_uploads_in_words, run_push_key
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.mapfiles import SECOND, EmbeddedFile, sharepoint_map_time
from smartcrawl.sources.sharepoint.metadata import EmbeddedVersion
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)


class LibraryEmbed(LibraryStep):
    """One embedding of one source."""

    def __init__(
        self,
        source: SharepointSource,
        options: Options,
        domain: Domain,
        store: VectorStoreOptions,
        *,
        is_dry: bool = False,
    ) -> None:
        """``domain``: that of the source, with the files whose versions are noted."""
        super().__init__(source, options, is_dry=is_dry)
        self._domain = domain
        self._store = store

    def embed(
        self,
        *,
        is_full: bool = False,
        is_ending: Callable[[], bool] = lambda: False,
        is_mending: bool = False,
    ) -> LibraryResult:
        """Make the store equal to the source, and write the map of what is embedded.

        ``is_full``: every file is given anew, and failed ones are tried again. ``is_mending``:
        entries that others took out of ``files_metadata.json`` come back.

        Raises:
            RunHeldError: another process embeds this source.
            SmartcrawlError: the source was never downloaded, or a setting is missing.
            OSError: a file cannot be moved, or a map not written.
        """
        key = run_push_key(self._store)
        # Other steps do without these.
        from smartcrawl.index.vectorstore.api import VectorStoreApi  # noqa: PLC0415
        from smartcrawl.index.vectorstore.push import Push  # noqa: PLC0415

        now = int(time.time())
        store = self._store
        with (
            self._opened(f"{self._source.name}.embed") as (connection, no),
            closing(VectorStoreApi(store, key)) as api,
        ):
            items = EmbeddedItems(connection, self._source, no, self._folder, is_full=is_full)
            rows = StoreRows(connection, url=store.url, store=store.store, source=no, now=now)
            push = Push(api, rows, items, store, now=now, is_full=is_full, is_ending=is_ending)
            pushed = push.run()
            del push  # it has the list of the store
            items.settle_failures()
            result = self._result(pushed, items)
            for reason in result.reasons:
                logger.warning("%s", reason)
            embedded = self._write_maps(connection, no, rows, with_files=items.has_moved)
            self._note_versions(connection, no, embedded, is_mending=is_mending)
            if pushed.left:
                command = f"{program_name()} library cleanup --files"
                logger.info("%s", run_left_uploads_in_words(pushed.left, command))
            return result

    def preview(
        self, *, is_full: bool = False, is_ending: Callable[[], bool] = lambda: False
    ) -> LibraryResult:
        """Return the result that ``embed`` would have now; nothing is written (R3-61).

        What a server would refuse cannot be known. Without a store all is new.

        Raises:
            SmartcrawlError: the source was never downloaded, or a setting is missing.
        """
        store, now = self._store, int(time.time())
        key = run_push_key(store)
        from smartcrawl.index.vectorstore.api import VectorStoreApi  # noqa: PLC0415
        from smartcrawl.index.vectorstore.push import LookedRows, PushPreview  # noqa: PLC0415

        with self._opened(f"{self._source.name}.embed") as (connection, no), ExitStack() as stack:
            api = None
            if store.store:
                api = stack.enter_context(closing(VectorStoreApi(store, key)))
            items = EmbeddedItems(
                connection, self._source, no, self._folder, is_full=is_full, is_dry=True
            )
            rows = LookedRows(connection, url=store.url, store=store.store, source=no, now=now)
            preview = PushPreview(rows, items, store, now=now, is_full=is_full, is_ending=is_ending)
            return self._result(preview.counted(api), items)

    def _write_maps(
        self, connection: Connection, no: int, rows: StoreRows, *, with_files: bool
    ) -> Mapping[int, EmbeddedFile]:
        """Write the map of what is embedded, and that of the files where one was moved.

        Returns what is embedded, by record.no.
        """
        maps = LibraryMaps(self._source, self._folder)
        if with_files:
            maps.write_files_map(library_rows(connection, no))
        embedded = run_embedded_files(rows.completed(), self._store.store)
        errors = run_embed_errors(connection, no)
        maps.write_vectorstore_map(library_rows(connection, no), embedded, errors)
        return embedded

    def _note_versions(
        self,
        connection: Connection,
        no: int,
        embedded: Mapping[int, EmbeddedFile],
        *,
        is_mending: bool,
    ) -> None:
        """Add what is embedded to ``files_metadata.json`` (R3-141); known versions stay."""
        metadata = LibraryMetadata(self._domain, connection, datetime.now(UTC))
        if not is_mending and metadata.has_all({file.file for file in embedded.values()}):
            return
        versions = [
            EmbeddedVersion(
                file.file,
                file.store,
                sharepoint_map_time((file.embedded_at or 0) * SECOND),
                self._source,
                row,
            )
            for row in library_rows(connection, no)
            if (file := embedded.get(row.no)) is not None
        ]
        noted = metadata.update(versions, is_mending=is_mending)
        for line in noted.lines:
            logger.warning("%s", line)

    def _result(self, pushed: Pushed, items: EmbeddedItems) -> LibraryResult:
        names = items.names([*dict(pushed.failed), *pushed.in_progress])
        reasons = [f"{names.get(url, url)}: {why}" for url, why in pushed.failed]
        reasons += items.skipped.values()
        reasons += items.owed.values()
        reasons += [
            f"{names.get(url, url)} is still in progress: the next run looks again"
            for url in pushed.in_progress
        ]
        if pushed.error is not None:
            reasons.append(pushed.error)
        embedded = Embedded(
            uploaded=pushed.uploaded,
            attached=pushed.attached,
            detached=pushed.detached,
            left=pushed.left,
            completed=pushed.completed,
            embed_failed=len(items.refused),
            adopted=pushed.adopted,
            in_progress=len(pushed.in_progress),
            vector_store_id=self._store.store,
        )
        return LibraryResult(
            self._source,
            complete=pushed.is_whole and not items.skipped and not items.owed,
            reasons=reasons,
            listed=pushed.pages,
            unchanged=pushed.unchanged,
            skipped=len(items.skipped),
            embedded=embedded,
        )


def run_embedded_files(files: Iterable[StoredFile], store: str) -> dict[int, EmbeddedFile]:
    """Return the completed files of a store as its map has them, by record.no."""
    return {
        file.version.no: EmbeddedFile(
            file.file, store, file.uploaded_at or file.embedded_at, file.embedded_at
        )
        for file in files
        if file.file is not None
    }


def run_embed_errors(connection: Connection, source: int) -> dict[int, str]:
    """Return why items of a source could not be embedded, by record.no."""
    return {no: failure.error for no, failure in embed_failure_rows(connection, source).items()}

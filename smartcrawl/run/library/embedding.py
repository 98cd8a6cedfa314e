"""The step embed of a library: its vector store is made equal to 02_embedded (R3-80 to R3-86)."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from io import BufferedReader
from itertools import islice
from typing import Final

from smartcrawl.index.vectorstore.ports import (
    DOMAIN,
    ITEM,
    SOURCE,
    ItemVersion,
    Pushed,
    StoredFile,
    StoreItem,
    vector_store_file_stem,
)
from smartcrawl.index.vectorstore.rows import StoreRows
from smartcrawl.model.library import LibraryRow, SourceType
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_name
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.library.embedding import (
    EmbedFailure,
    delete_embed_failure_rows,
    embed_failure_rows,
    given_library_row_hashes,
    move_library_row,
    store_embed_failure_row,
    stored_listing_was_whole,
)
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.registry.library.items import (
    ProcessedRow,
    library_body_hash_rows,
    library_row_urls,
    library_rows,
    library_rows_of,
    store_processed_rows,
)
from smartcrawl.registry.library.shelf import LibraryShelf
from smartcrawl.run.library.maps import LibraryMaps
from smartcrawl.run.library.metadata import LibraryMetadata
from smartcrawl.run.library.result import Embedded, LibraryResult
from smartcrawl.run.library.steps import LibraryStep
from smartcrawl.run.pushing import run_left_uploads_in_words, run_push_key
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import SECOND, EmbeddedFile, sharepoint_map_time
from smartcrawl.sources.sharepoint.metadata import EmbeddedVersion
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)


_CONFIG: Final = CRAWLER_HARDCODED_CONFIG
_EMBEDDED: Final = f"{_CONFIG.PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER}/"
_FAILED: Final = f"{_CONFIG.PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER}/"
_AGAIN: Final = "it is tried again when it changes, or with --mode full"
_AT_ONCE: Final = 2_000  #: hashes of one statement


class EmbeddedItems:
    """The items of a source that its vector store is to have.

    An item whose file cannot be given now is skipped, and what the store has of it stays.
    """

    key: Final = ITEM
    checks_account: Final = True  #: R3-115
    keeps_former: Final = False  #: R3-86: the file moves to 03_failed, and is not tried again
    place_of_store: Final = "vector_store_id in domain.json, and VECTOR_STORE_URL,"

    def __init__(
        self,
        connection: Connection,
        source: SharepointSource,
        source_no: int,
        folder: LibraryFolder,
        *,
        is_full: bool,
        is_dry: bool = False,
    ) -> None:
        """``is_full``: items that could not be embedded are tried again.

        ``is_dry``: nothing is written; the folder notes renamings only.
        """
        self.source_no = source_no
        self.marks: Mapping[str, str] = {DOMAIN: source.domain, SOURCE: source.source_id}
        self.knows_all = stored_listing_was_whole(connection, source_no)
        self.skipped: dict[int, str] = {}  #: reasons, by record.no
        self.owed: dict[int, str] = {}  #: reasons of failures of earlier runs, by record.no
        self.refused: dict[int, str] = {}  #: reasons of failures of now, by record.no
        self.has_moved = (
            False  #: whether an item got another place, so that the map of files differs
        )
        self._connection = connection
        self._is_list = source.source_type is not SourceType.FILES  # or pages
        self._folder = folder
        self._shelf = LibraryShelf(folder, source_no)
        self._is_full, self._is_dry = is_full, is_dry
        self._moved: dict[int, str] = {}  #: paths of a dry run, by record.no
        self._kept: dict[int, bytes | None] = {}

    def versions(self) -> Iterator[ItemVersion]:
        """Yield each item that can be embedded."""
        self.settle_failures(again=self._is_full)
        failures = embed_failure_rows(self._connection, self.source_no)
        if self._is_dry and self._is_full:
            failures = {}
        given = given_library_row_hashes(self._connection, self.source_no) if self._is_list else {}
        changed = set(failures)
        rows = map(self._placed, library_rows(self._connection, self.source_no))
        while some := list(islice(rows, _AT_ONCE)):  # all at once would take 1 KB each
            hashes = self._body_hashes([row.no for row in some])
            for row in some:
                facts = _facts(row, hashes.get(row.no, b""))
                failure = failures.get(row.no)
                if failure is not None and failure.facts == facts:
                    changed.discard(row.no)
                    self.owed[row.no] = f"{row.server_relative_url}: {failure.error}; {_AGAIN}"
                else:
                    failure = None
                if failure is not None or (row.path or "").startswith(_FAILED):
                    self._kept[row.no] = None if failure is None else failure.hash
                    continue
                digest = None if self._problem(row) else self._hash(row, facts, hashes, given)
                if digest is None:
                    self._skip(row, self._problem(row) or f"{row.path} cannot be read")
                    continue
                yield ItemVersion(row.no, row.unique_id, digest, facts)
        if not self._is_dry:
            delete_embed_failure_rows(self._connection, sorted(changed))

    def _placed(self, row: LibraryRow) -> LibraryRow:
        """Return an item where a run would have put its file by now."""
        return row._replace(path=self._moved[row.no]) if row.no in self._moved else row

    def kept(self) -> Mapping[int, bytes | None]:
        """Return items that were skipped, and the hashes of those that could not be embedded."""
        return self._kept

    def items(self, numbers: Sequence[int]) -> Iterator[StoreItem]:
        """Yield those of some items whose files are as the registry has them.

        The file of each is open until the next is asked for.
        """
        rows = library_rows_of(self._connection, numbers)
        hashes = self._body_hashes(list(numbers))
        for no in numbers:
            row = rows.get(no)
            if row is None:
                continue  # another step is at it: the next run takes it up
            row = self._placed(row)
            if self._problem(row):
                continue
            try:
                file = self._folder.open(row.path or "")
            except OSError as error:
                self._download_again(row, f"cannot be read ({error.strerror})")
                continue
            with file:
                item = self._item(row, file, hashes)
                if item is not None:
                    yield item

    def _item(
        self, row: LibraryRow, file: BufferedReader, hashes: Mapping[int, bytes]
    ) -> StoreItem | None:
        """Return an item with its open file; None: its bytes are others (R3-107)."""
        try:
            digest = file_digest(file, "sha256").digest()
            size = os.fstat(file.fileno()).st_size
        except OSError as error:
            self._download_again(row, f"cannot be read ({error.strerror})")
            return None
        if not self._is_list and digest != hashes.get(row.no, digest):
            self._download_again(row, "has other bytes than were downloaded")
            return None
        version = ItemVersion(row.no, row.unique_id, digest, _facts(row, hashes.get(row.no, b"")))
        name, ending = run_embedded_file_name((row.path or "").rpartition("/")[2])
        media_type = "application/octet-stream"
        return StoreItem(version, name, file, size, digest, ending, media_type)

    def names(self, unique_ids: Sequence[str]) -> dict[str, str]:
        """Return the server relative URLs of some items, by unique id."""
        return library_row_urls(self._connection, self.source_no, unique_ids)

    def note_refused(self, version: ItemVersion, why: str) -> None:
        """Record that the store cannot have a version; its file is moved afterwards (R3-86)."""
        failure = EmbedFailure(version.facts, version.hash, why)
        store_embed_failure_row(self._connection, self.source_no, version.no, failure)
        self.refused[version.no] = why

    def settle_failures(self, *, again: bool = False) -> None:
        """Move the files of items that could not be embedded to 03_failed; ``again``: back."""
        failures = embed_failure_rows(self._connection, self.source_no)
        rows = library_rows_of(self._connection, list(failures))
        hashes = self._body_hashes(list(rows))
        before, after = (_FAILED, _EMBEDDED) if again else (_EMBEDDED, _FAILED)
        for no, row in rows.items():
            path = row.path or ""
            is_same = failures[no].facts == _facts(row, hashes.get(no, b""))
            if not is_same or not path.startswith((_EMBEDDED, _FAILED)):
                continue
            inner = path.partition("/")[2]
            if self._folder.facts(before + inner) is not None:
                self._folder.rename(before + inner, after + inner)
                self._folder.tidy(before + inner)
                if not self._is_dry:
                    name = row.server_relative_url
                    logger.warning("%s is moved to %s", name, after + inner)
            self.has_moved |= path != after + inner
            if self._is_dry:
                self._moved[no] = after + inner
            else:
                move_library_row(self._connection, no, path, after + inner)
        if again and not self._is_dry:
            delete_embed_failure_rows(self._connection, list(failures))

    def _problem(self, row: LibraryRow) -> str | None:
        """Return the reason why an item has no file to embed now, or None (R3-64, R3-126)."""
        path = row.path
        if path is None:
            return row.sharepoint_error or "it is not downloaded"
        if not path.startswith(_EMBEDDED):
            return "it is not processed"
        ending = path.rpartition(".")[2].lower()
        if ending not in _CONFIG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES:
            return f"vector stores take no files of type .{ending}"
        facts = self._folder.facts(path)
        if facts is None:
            return f"{path} is missing on disk; the next download fetches it"
        if self._is_list and facts[1] != row.last_modified:
            return f"{path} is to be processed again"
        return None

    def _hash(
        self,
        row: LibraryRow,
        facts: bytes,
        hashes: Mapping[int, bytes],
        given: Mapping[tuple[int, bytes], bytes],
    ) -> bytes | None:
        """Return the SHA-256 of the file of an item; one that was given is not read again.

        Files have it since their download, but those of an older version whose text is unreadable.
        """
        if not self._is_list and row.no in hashes:
            return hashes[row.no]
        if (known := given.get((row.no, facts))) is not None:
            return known
        try:
            return sha256(self._folder.read(row.path or "")).digest()
        except OSError:
            return None

    def _skip(self, row: LibraryRow, why: str) -> None:
        self._kept[row.no] = None
        self.skipped[row.no] = f"{row.server_relative_url}: {why}"

    def _download_again(self, row: LibraryRow, why: str) -> None:
        """Let the next download bring a file, unless one is at it now."""
        self._skip(row, f"{row.path} {why}; the next download fetches it")
        if self._is_dry or row.path in self._shelf.paths_under_way(self._connection):
            return
        with transaction(self._connection):
            store_processed_rows(self._connection, [ProcessedRow(row, None, None)])
        self.has_moved = True

    def _body_hashes(self, numbers: Sequence[int]) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for start in range(0, len(numbers), _AT_ONCE):
            found |= library_body_hash_rows(self._connection, numbers[start : start + _AT_ONCE])
        return found


def _facts(row: LibraryRow, body_hash: bytes) -> bytes:
    """Return a digest of the four fields of an item (M-16), and of what was downloaded."""
    fields = (row.filename, row.server_relative_url, row.file_size, row.last_modified)
    text = "\0".join(map(str, fields)).encode("utf-8", "surrogatepass")
    return sha256(body_hash + text).digest()[:16]


def run_embedded_file_name(name: str) -> tuple[str, str]:
    """Return name and ending of a file for a server.

    >>> run_embedded_file_name("Übersicht 1.DOCX")
    ('Übersicht 1', '.docx')
    >>> run_embedded_file_name("概要.md")
    ('概要', '.md')
    """
    stem, dot, ending = name.rpartition(".")
    return vector_store_file_stem(stem) or "file", f"{dot}{ending.lower()}"


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

"""The push of a source to the configured vector store, for a command or after a run.

Uploads of this registry that no vector store of the account has any more (ADR 97).

A push takes files out of its store, and leaves them in the account, where other stores may have
them. Here they are found, by the lists of all stores, and deleted on order.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from smartcrawl.extract.repeated import document_without
from smartcrawl.index.vectorstore.ports import (
    DOMAIN,
    SOURCE,
    URL,
    ItemVersion,
    Pushed,
    StoreItem,
    UploadedFile,
    vector_store_file_stem,
    vector_store_plan,
)
from smartcrawl.index.vectorstore.rows import (
    StoreRows,
    count_left_uploads_elsewhere,
    forget_uploads,
    left_upload_ids,
    store_upload_ids,
    vector_store_files,
    vector_store_number,
)
from smartcrawl.model.exceptions import PushError, PushHeldError, RunHeldError, SettingError
from smartcrawl.model.openai_server import KEY_VARIABLE
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.program import extra_installation
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document
from smartcrawl.reports.export import ExportedPage, exported_file_name, exported_markdown
from smartcrawl.reports.text import report_noun

if TYPE_CHECKING:
    from smartcrawl.index.vectorstore.api import VectorStoreApi
    from smartcrawl.index.vectorstore.reading import Ask


_AT_ONCE: Final = 2_000  #: rows of one statement without documents

_SOURCE = "SELECT no FROM source WHERE name = ?"
#: Pages with an index entry, as long as they have it: a clone has none, a lost page still does.
#: ``+`` keeps the order of the numbers (reports/export.py).
_VERSIONS = """
SELECT r.no, r.url, c.content_hash
  FROM record r JOIN content c ON c.no = r.content
 WHERE r.no > :after AND +r.source = :source AND r.entry > 0
 ORDER BY r.no LIMIT :most
"""
_ITEMS = """
SELECT r.no, r.url, c.content_hash, c.title, c.description, c.language, c.marked,
       c.document
  FROM record r JOIN content c ON c.no = r.content
 WHERE r.no IN carray(?) AND r.entry > 0
 ORDER BY r.no
"""


class PushedPages:
    """The pages of a source that its vector store is to have: those that the index has.

    So a page leaves the store under the same evidence as the index, and one bad night of its server
    rewrites nothing. Each statement reads another moment: a run may change pages meanwhile.
    """

    def __init__(self, connection: Connection, source: str) -> None:
        """``source``: the name of a stored source."""
        self._connection = connection
        self.marks: Mapping[str, str] = {SOURCE: source, DOMAIN: ""}  # not a library's item
        self.key = URL
        self.knows_all = self.keeps_former = True
        self.checks_account = False  # it would take a second list in each push
        self.place_of_store = "VECTOR_STORE_ID, and VECTOR_STORE_URL,"
        self._source = source
        self.source_no = int(connection.execute(_SOURCE, (source,)).get)

    def versions(self) -> Iterator[ItemVersion]:
        """Yield each page."""
        names: dict[str, Any] = {"source": self.source_no, "most": _AT_ONCE}
        after = 0
        while rows := self._connection.execute(_VERSIONS, names | {"after": after}).fetchall():
            for no, url, hash_ in rows:
                yield ItemVersion(no, url, bytes(hash_))
            after = rows[-1][0]

    def items(self, numbers: Sequence[int]) -> Iterator[StoreItem]:
        """Yield those of some pages that the index still has."""
        rows: Any = self._connection.execute(_ITEMS, (numbers_for_sql(numbers),)).fetchall()
        for no, url, hash_, title, description, language, marked, packed in rows:
            document = replace(
                document_without(unpack_stored_document(packed), marked),
                title=title,
                description=description,
                language=language,
            )
            # Neither time nor loss: a file changes only with its page.
            page = ExportedPage("", url, self._source, False, None, document)
            body = exported_markdown(page, numbered=True).encode("utf-8", "replace")
            version = ItemVersion(no, url, bytes(hash_))
            digest = sha256(body).digest()
            yield StoreItem(version, run_pushed_file_name(url), body, len(body), digest)

    def kept(self) -> Mapping[int, bytes | None]:
        """Return no page: each has its version."""
        return {}

    def note_refused(self, version: ItemVersion, why: str) -> None:
        """Do nothing: the next push tries again."""


def run_pushed_file_name(url: str) -> str:
    """Return a name for the file of a page, without ending.

    >>> run_pushed_file_name("https://docs.example.com/guide/install.html")
    'docs.example.com_guide_install.html'
    >>> run_pushed_file_name("https://docs.example.com/größe").partition("-")[0]
    'docs.example.com_grösse'
    """
    return vector_store_file_stem(exported_file_name(url, "")) or "page"


_LOOK: Final = 0.2  #: seconds between two looks for the end of the process


def push_run_source(
    connection: Connection,
    database: Database,
    options: VectorStoreOptions,
    source: str,
    *,
    report: Callable[[int], None] = lambda number: None,
    is_ending: Callable[[], bool] = lambda: False,
    environment: Mapping[str, str] = os.environ,
) -> Pushed:
    """Make the vector store equal to the stored pages of a source; others' files stay.

    ``report`` is called with the number of pages that are done.

    Raises:
        SettingError: a package or the key is missing, or the key cannot be one.
        PushHeldError: another process pushes to this store.
        RegistryError: the registry cannot be read or written.
    """
    key = run_push_key(options, environment)
    # Commands and runs that push nothing do without these.
    from smartcrawl.index.vectorstore.api import VectorStoreApi  # noqa: PLC0415
    from smartcrawl.index.vectorstore.push import Push  # noqa: PLC0415

    now = int(time.time())
    with push_lease_of_run(database, options, now), closing(VectorStoreApi(options, key)) as api:
        pages = PushedPages(connection, source)
        rows = StoreRows(
            connection,
            url=options.url,
            store=options.store,
            source=pages.source_no,
            now=now,
        )
        push = Push(
            api,
            rows,
            pages,
            options,
            now=now,
            sleep=lambda seconds: _sleep(seconds, is_ending),
            report=report,
            is_ending=is_ending,
        )
        return push.run()


def run_push_key(options: VectorStoreOptions, environment: Mapping[str, str] = os.environ) -> str:
    """Return the key for a store, or nothing where none is set.

    Raises:
        SettingError: a package or the key is missing, or the key cannot be one.
    """
    try:  # of the extra openai
        from smartcrawl.index.openai_sdk import openai_key  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SettingError(
            f"VECTOR_STORE_ID needs the package {error.name}: run {extra_installation('openai')}"
        ) from error
    missing = (
        f"VECTOR_STORE_ID is set, and the environment has no {KEY_VARIABLE}: set it to a key of the"
        " API, or VECTOR_STORE_URL to a server of your own"
    )
    return openai_key(missing if options.needs_key else "", environment)


def run_left_uploads_in_words(left: int, command: str, *, is_dry: bool = False) -> str:
    """Return the line about uploads that a push took out of its store.

    >>> run_left_uploads_in_words(2, "smartcrawl library cleanup --files")
    '2 uploads stay in the account; listed with: smartcrawl library cleanup --files'
    """
    verb = "would stay" if is_dry else "stays" if left == 1 else "stay"
    return f"{report_noun(left, 'upload')} {verb} in the account; listed with: {command}"


def run_would_push(connection: Connection, options: VectorStoreOptions, source: str) -> Pushed:
    """Return the figures of a push, by the registry alone: nothing is sent and nothing stored."""
    pages = PushedPages(connection, source)
    store = vector_store_number(connection, options.url, options.store)
    files = [] if store is None else vector_store_files(connection, store, pages.source_no)
    versions = {version.no: version for version in pages.versions()}
    plan = vector_store_plan(versions, files)
    former = [file for files in plan.former.values() for file in files]
    going = (*plan.leaving, *former)
    return Pushed(
        pages=len(versions),
        unchanged=plan.unchanged,
        uploaded=len(plan.missing),
        completed=len(plan.missing) + len(plan.under_way),
        detached=len(going),
        left=sum(file.is_our_upload for file in going),
        is_dry=True,
    )


@contextmanager
def push_lease_of_run(database: Database, options: VectorStoreOptions, now: int) -> Iterator[None]:
    """Keep other processes from pushing to a store.

    Raises:
        PushHeldError: another process pushes to it.
    """
    since = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    try:
        lease = database.take(f"vector store {options.store}", since)
    except RunHeldError as error:
        raise PushHeldError(options.store, error) from None
    try:
        yield
    finally:
        lease.release()


def _sleep(seconds: float, is_ending: Callable[[], bool]) -> None:
    """Wait, not longer than until the process is to end."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not is_ending():
        time.sleep(min(left, _LOOK))


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
        from smartcrawl.index.vectorstore.api import (  # noqa: PLC0415
            VectorStoreApi,
            vector_store_patience,
        )

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

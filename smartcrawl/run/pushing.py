"""The push of a source to the configured vector store, for a command or after a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from smartcrawl.index.vectorstore.ports import (
    DOMAIN,
    SOURCE,
    URL,
    ItemVersion,
    Pushed,
    StoreItem,
    vector_store_file_stem,
    vector_store_plan,
)
from smartcrawl.index.vectorstore.rows import StoreRows, vector_store_files, vector_store_number
from smartcrawl.model.exceptions import PushHeldError, RunHeldError, SettingError
from smartcrawl.model.openai_server import KEY_VARIABLE
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.program import extra_installation
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document
from smartcrawl.reports.export import ExportedPage, exported_file_name, exported_markdown
from smartcrawl.reports.text import report_noun

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
SELECT r.no, r.url, c.content_hash, c.title, c.description, c.language, c.document
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
        for no, url, hash_, title, description, language, packed in rows:
            document = replace(
                unpack_stored_document(packed),
                title=title,
                description=description,
                language=language,
            )
            # Neither time nor loss: a file changes only with its page.
            page = ExportedPage("", url, self._source, False, None, document)
            body = exported_markdown(page).encode("utf-8", "replace")
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

"""The push of a source to the configured vector store, for a command or after a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Final

from smartcrawl.index.vectorstore.ports import Pushed, vector_store_plan
from smartcrawl.index.vectorstore.rows import StoreRows, vector_store_files, vector_store_number
from smartcrawl.model.exceptions import PushHeldError, RunHeldError, SettingError
from smartcrawl.model.openai_server import KEY_VARIABLE
from smartcrawl.model.program import extra_installation
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.reports.text import report_noun
from smartcrawl.run.pushed_pages import PushedPages

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

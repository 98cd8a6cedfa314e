"""The vector store of a domain: the one that its domain.json names, or a new one (R3-30)."""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from smartcrawl.model.exceptions import PushError, RunHeldError, SmartcrawlError, SourceError
from smartcrawl.model.option_groups import VectorStoreOptions, vector_store_id_option
from smartcrawl.model.options import Options
from smartcrawl.model.patience import AwayError
from smartcrawl.registry.database.databases import Database, registry_database
from smartcrawl.registry.library.embedding import (
    domain_store_row,
    end_domain_store_row,
    intend_domain_store_row,
    note_domain_store_row,
)
from smartcrawl.run.pushing import run_push_key
from smartcrawl.sources.sharepoint.domains import (
    Domain,
    load_sharepoint_domain,
    write_sharepoint_domain_store_id,
)

if TYPE_CHECKING:
    from smartcrawl.index.vectorstore.api import VectorStoreApi
    from smartcrawl.index.vectorstore.ports import ListedFile

logger = logging.getLogger(__name__)

_WAIT: Final = 60.0  #: seconds for another process that makes the store
_LOOK: Final = 0.2
_SECONDS: Final = 10.0  #: of waiting for an answer about a store


def run_domain_store(domain: Domain, options: Options) -> VectorStoreOptions:
    """Return the options of the store of a domain; make the store where it has none.

    Raises:
        PushError: it cannot be made (R3-116).
        RunHeldError: another process makes it for too long.
        SmartcrawlError: a setting is missing or wrong, or domain.json cannot be written.
    """
    server = options.store_server
    if domain.vector_store_id:
        return run_domain_store_of_name(domain, server)
    database = registry_database(options.registry)
    with _making(database, domain):
        now = load_sharepoint_domain(options.sharepoint.storage, domain.domain_id)
        store = now.vector_store_id or _made(now, server, database)
    return replace(server, store=vector_store_id_option(store, str(domain.path)))


def run_domain_store_of_name(domain: Domain, server: VectorStoreOptions) -> VectorStoreOptions:
    """Return the options of the store that domain.json names; without one its id is empty.

    ``server``: options without a store.

    Raises:
        SettingError: the id can be none.
    """
    if not domain.vector_store_id:
        return server
    return replace(server, store=vector_store_id_option(domain.vector_store_id, str(domain.path)))


@contextmanager
def _making(database: Database, domain: Domain) -> Iterator[None]:
    """Let one process at a time make the store of a domain."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    end = time.monotonic() + _WAIT
    while True:
        try:
            lease = database.take(f"store of {domain.domain_id}", since)
            break
        except RunHeldError:
            if time.monotonic() > end:
                raise
            time.sleep(_LOOK)
    try:
        yield
    finally:
        lease.release()


def _made(domain: Domain, server: VectorStoreOptions, database: Database) -> str:
    """Make a store: the intent first, then the request, then its id into domain.json."""
    key = run_push_key(server, os.environ)
    from smartcrawl.index.vectorstore.api import (  # noqa: PLC0415  # of the extra openai
        AbsentError,
        RefusedError,
        VectorStoreApi,
        vector_store_patience,
    )

    name = domain.vector_store_name or domain.domain_id
    patience = vector_store_patience(server)
    with closing(database.open()) as connection, closing(VectorStoreApi(server, key)) as api:
        intent, store = domain_store_row(connection, domain.domain_id, server.url)
        is_new = not intent
        if is_new:
            intent = secrets.token_hex(8)
            intend_domain_store_row(connection, domain.domain_id, server.url, intent)
        if store is None:
            try:
                store = patience.ask(_request(api, name, domain.domain_id, intent, is_new=is_new))
            except (AbsentError, RefusedError) as error:
                raise PushError(
                    f"{server.destination} does not create the vector store '{name}' "
                    f"({error}): set vector_store_id in {domain.path} to an existing one"
                ) from None
            note_domain_store_row(connection, domain.domain_id, server.url, store)
        write_sharepoint_domain_store_id(domain.path, store)
        logger.info("Created vector store '%s' (ID=%s)", name, store)
        end_domain_store_row(connection, domain.domain_id, server.url)
    return store


def _request(
    api: VectorStoreApi, name: str, domain: str, intent: str, *, is_new: bool
) -> Callable[[], str]:
    """Return the request for a store, which looks first for what an earlier one made."""
    may_be_made = not is_new

    def request() -> str:
        nonlocal may_be_made
        found = api.store_of(intent) if may_be_made else None
        may_be_made = True
        return found or api.create_store(name, domain=domain, intent=intent)

    return request


class StoreAbsentError(SourceError):
    """The vector store of a domain is gone."""


def run_domain_store_is_gone(domain: Domain, server: VectorStoreOptions) -> bool:
    """Whether the server says that it does not have the store of a domain, in one request.

    A server that is away or refuses, or a setting that is wrong, proves nothing.
    """
    if not domain.vector_store_id:
        return False
    try:
        store = run_domain_store_of_name(domain, server)
        key = run_push_key(store)
    except SmartcrawlError:
        return False
    from smartcrawl.index.vectorstore.api import (  # noqa: PLC0415
        AbsentError,
        RefusedError,
        VectorStoreApi,
    )

    with closing(VectorStoreApi(store, key, timeout=_SECONDS)) as api:
        try:
            api.check_store()
        except AbsentError:
            return True
        except (AwayError, RefusedError, SmartcrawlError):
            return False
    return False


def run_domain_store_pages(store: VectorStoreOptions) -> Iterator[list[ListedFile]]:
    """Yield the files of a store to the end of its list, page by page.

    Raises:
        StoreAbsentError: the store is gone.
        SettingError: a package, the key or a setting is missing or wrong.
        PushError: its server is away, or refuses.
    """
    key = run_push_key(store)
    # Commands that ask no store do without these.
    from smartcrawl.index.vectorstore.api import (  # noqa: PLC0415
        AbsentError,
        RefusedError,
        VectorStoreApi,
        vector_store_patience,
    )
    from smartcrawl.index.vectorstore.reading import vector_store_pages  # noqa: PLC0415

    patience = vector_store_patience(store)
    with closing(VectorStoreApi(store, key)) as api:
        try:
            yield from vector_store_pages(patience.ask, api)
        except AbsentError as error:
            raise StoreAbsentError(
                f"{store.destination} has no vector store {store.store} ({error})"
            ) from error
        except RefusedError as error:
            raise PushError(f"{store.destination} refuses the list ({error})") from error


def run_attached_file_ids(domain: Domain, server: VectorStoreOptions) -> set[str]:
    """Return the ids of all files of the store; ``server``: options without a store.

    Raises:
        SourceError: the domain names no store, or the store is gone (StoreAbsentError).
        SettingError: a package, the key or a setting is missing or wrong.
        PushError: its server is away, or refuses.
    """
    if not domain.vector_store_id:
        raise SourceError(f"{domain.path} has no vector_store_id: nothing was removed")
    store = run_domain_store_of_name(domain, server)
    try:
        return {file.id for page in run_domain_store_pages(store) for file in page}
    except StoreAbsentError as error:
        raise StoreAbsentError(
            f"{error}: nothing was removed; correct vector_store_id in {domain.path}"
        ) from error

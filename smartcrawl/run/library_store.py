"""The files of a domain's vector store, read to the end of their list."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Final

from smartcrawl.model.exceptions import PushError, SmartcrawlError, SourceError
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.run.domain_store import run_domain_store_of_name
from smartcrawl.run.pushing import run_push_key
from smartcrawl.sources.sharepoint.domains import Domain

_SECONDS: Final = 10.0  #: of waiting for an answer about a store


class StoreAbsentError(SourceError):
    """The vector store of a domain is gone."""


def run_domain_store_is_gone(
    domain: Domain, server: VectorStoreOptions, *, environment: Mapping[str, str] = os.environ
) -> bool:
    """Whether the server says that it does not have the store of a domain, in one request.

    A server that is away or refuses, or a setting that is wrong, proves nothing.
    """
    if not domain.vector_store_id:
        return False
    try:
        store = run_domain_store_of_name(domain, server)
        key = run_push_key(store, environment)
    except SmartcrawlError:
        return False
    from smartcrawl.index.outage import AwayError  # noqa: PLC0415  # as below
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


def run_attached_file_ids(
    domain: Domain, server: VectorStoreOptions, *, environment: Mapping[str, str] = os.environ
) -> set[str]:
    """Return the ids of all files of the store; ``server``: options without a store.

    Raises:
        SourceError: the domain names no store.
        StoreAbsentError: the store is gone.
        SettingError: a package, the key or a setting is missing or wrong.
        PushError: its server is away, or refuses.
    """
    if not domain.vector_store_id:
        raise SourceError(f"{domain.path} has no vector_store_id: nothing was removed")
    store = run_domain_store_of_name(domain, server)
    key = run_push_key(store, environment)
    # Commands that ask no store do without these.
    from smartcrawl.index.vectorstore.api import (  # noqa: PLC0415
        AbsentError,
        RefusedError,
        VectorStoreApi,
    )
    from smartcrawl.index.vectorstore.patience import StorePatience  # noqa: PLC0415
    from smartcrawl.index.vectorstore.reading import vector_store_pages  # noqa: PLC0415

    patience = StorePatience(store.destination, store.away, time.monotonic, time.sleep)
    with closing(VectorStoreApi(store, key)) as api:
        try:
            return {file.id for page in vector_store_pages(patience.asked, api) for file in page}
        except AbsentError as error:
            raise StoreAbsentError(
                f"{store.destination} has no vector store {store.store} ({error}): nothing was"
                f" removed; correct vector_store_id in {domain.path}"
            ) from error
        except RefusedError as error:
            raise PushError(f"{store.destination} refuses the list ({error})") from error

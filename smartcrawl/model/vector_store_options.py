"""The settings of a vector store, read and validated once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import OpenAIServerOptions
from smartcrawl.model.settings_table import SETTINGS, setting_value


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStoreOptions(OpenAIServerOptions):
    """The vector store that pages are pushed to. ``url`` ends in /v1; no field has a default."""

    store: str  #: id of the store
    wait: int  #: seconds to wait until the store has embedded what it was given
    away: int  #: seconds to wait for a server that is away or busy, once in an outage
    concurrency: int  #: files that are given to it at the same time, 1 to 16

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the options; None where ``VECTOR_STORE_ID`` is empty: nothing is pushed.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        store = setting_value(settings, "VECTOR_STORE_ID")
        options = cls.server_of(settings)
        return replace(options, store=store) if store else None

    @classmethod
    def server_of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options without a store: each domain of libraries names its own.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        value_of = partial(setting_value, settings)
        return cls(
            url=value_of("VECTOR_STORE_URL"),
            store="",
            wait=value_of("VECTOR_STORE_WAIT_SECONDS"),
            away=value_of("SINK_WAIT_SECONDS"),
            concurrency=value_of("VECTOR_STORE_CONCURRENCY"),
            ca_file=value_of("CA_FILE"),
            has_proxies=value_of("HTTPPROXY_ENABLED"),
        )


def vector_store_id_option(store: str, place: str) -> str:
    """Return the id of a vector store that ``place``, a file, has.

    Raises:
        SettingError: it can be none.
    """
    known = SETTINGS["VECTOR_STORE_ID"]
    if not re.fullmatch(known.form, store):
        raise SettingError(
            f"{place}: vector_store_id is {store[:200]!r}: it takes {known.takes}; empty, one is"
            " made"
        )
    return store

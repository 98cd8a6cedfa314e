"""The settings of a vector store, read and validated once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import OpenAIServerOptions, openai_url_option
from smartcrawl.model.setting_values import (
    authorities_option,
    switch_option,
    whole_number_option,
)

_MOST_AT_ONCE: Final = 16  #: more would be refused by most servers
_ID: Final = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_:.-]{0,199}")


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
        store = str(settings["VECTOR_STORE_ID"] or "").strip()
        options = cls.server_of(settings)
        return (
            replace(options, store=vector_store_id_option(store, "VECTOR_STORE_ID"))
            if store
            else None
        )

    @classmethod
    def server_of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options without a store: each domain of libraries names its own.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        return cls(
            url=openai_url_option(settings, "VECTOR_STORE_URL", ending="/v1"),
            store="",
            wait=whole_number_option(settings, "VECTOR_STORE_WAIT_SECONDS"),
            away=whole_number_option(settings, "SINK_WAIT_SECONDS"),
            concurrency=whole_number_option(
                settings, "VECTOR_STORE_CONCURRENCY", least=1, most=_MOST_AT_ONCE
            ),
            ca_file=authorities_option(settings, "CA_FILE"),
            has_proxies=switch_option(settings, "HTTPPROXY_ENABLED"),
        )


def vector_store_id_option(store: str, place: str) -> str:
    """Return the id of a vector store; ``place`` has it.

    Raises:
        SettingError: it can be none.
    """
    if not _ID.fullmatch(store):
        raise SettingError(
            f"{place} is {store[:200]!r}: it takes the id of a vector store, such as vs_67fd0c12"
            if place == "VECTOR_STORE_ID"
            else f"{place}: vector_store_id is {store[:200]!r}: it takes the id of a vector store,"
            " such as vs_67fd0c12; empty, one is made"
        )
    return store

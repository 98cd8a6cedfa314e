"""The configuration of a run as one digest: its source, its settings and the version."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass, replace
from hashlib import sha256
from typing import Any, Final

from pydantic import BaseModel

from smartcrawl import __version__
from smartcrawl.model.options import Options
from smartcrawl.sources.base import Source

#: Fields of a source that runs found out, or that count for its alarms alone.
_NOT_OF_SOURCE: Final = frozenset({"start", "stale", "ways", "by_default", "max_age", "max_failed"})
#: Options that are places of the state, or count for alarms and notices alone: no page answers
#: otherwise for them.
_NOT_OF_RUN: Final = frozenset(
    {"data_dir", "registry", "sources_file", "settings_file", "snapshot_store", "redis"}
    | {"notify", "limits"}
)


def run_configuration(source: Source, options: Options) -> bytes:
    """Return a digest (32 bytes) of the keys of a source, the settings and the version.

    Runs that visit all pages and runs that visit the pages that are due have the same, and so have
    those with other delays: no page answers otherwise for them.
    """
    orders = ", ".join([_json(__version__), _json(_plain(source)), _json_of_options(options)])
    return sha256(f"[{orders}]".encode()).digest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


#: The last options and their JSON: a run asks several times, and its options never change.
_last: tuple[Options | None, str] = (None, "")


def _json_of_options(options: Options) -> str:
    global _last  # noqa: PLW0603  # one value, replaced as a whole
    of, text = _last
    if of is not options:
        found = _plain(replace(options, due_only=False, host_delays={}))
        text = _json({name: value for name, value in found.items() if name not in _NOT_OF_RUN})
        _last = (options, text)
    return text


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, the same in each process: sets have no order."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, BaseModel):
        names = type(value).model_fields.keys() - _NOT_OF_SOURCE
        return {name: _plain(getattr(value, name)) for name in names}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, Set):
        return sorted(_json(_plain(one)) for one in value)
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value)

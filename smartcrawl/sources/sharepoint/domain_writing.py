"""Writing the id of a vector store back to domain.json (R3-30)."""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from smartcrawl.model.exceptions import SourceError

_KEY: Final = "vector_store_id"
_EMPTY: Final = re.compile(r'("vector_store_id"\s*:\s*)""')
_INDENT: Final = re.compile(r"\A\{\r?\n([ \t]+)\"")


def write_sharepoint_domain_store_id(path: Path, store: str) -> None:
    """Set ``vector_store_id`` in a domain.json; readers see the old file or the new one, whole.

    Other keys, their order and, where the key is there, the whole layout stay.

    Raises:
        SourceError: it cannot be written.
    """
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}.writing")
    try:
        text = place.read_bytes().decode()
        mode = place.stat().st_mode & 0o777
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(sharepoint_domain_with_store_id(text, store).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except (OSError, ValueError) as error:
        with suppress(OSError):
            beside.unlink()
        raise SourceError(
            f"{path} cannot be written ({error}): set {_KEY} to {store!r} there"
        ) from error


def sharepoint_domain_with_store_id(text: str, store: str) -> str:
    """Return the text of a domain.json with another id.

    >>> sharepoint_domain_with_store_id('{"b": 1.50, "vector_store_id" : "", "a": [ ]}', "vs_1")
    '{"b": 1.50, "vector_store_id" : "vs_1", "a": [ ]}'
    >>> sharepoint_domain_with_store_id('{"b": 1.50}', "vs_1")
    '{"b": 1.5, "vector_store_id": "vs_1"}'

    Raises:
        ValueError: it is no JSON.
    """
    wanted = json.loads(text)
    wanted[_KEY] = store
    replaced = _EMPTY.sub(lambda found: found[1] + json.dumps(store), text, count=1)
    with suppress(ValueError):
        if json.loads(replaced) == wanted:
            return replaced
    found = _INDENT.match(text)
    return json.dumps(wanted, ensure_ascii=False, indent=found[1] if found else None)

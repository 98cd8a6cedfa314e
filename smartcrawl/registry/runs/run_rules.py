"""The scope and the rules that the workers of one run agree on (ADR 127).

The run has a digest of each, by its key, so that a worker with other ones can be refused by name.
No value is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from smartcrawl.model.exceptions import RunDiffersError
from smartcrawl.registry.connection import Connection

_DIGITS: Final = 16  #: hexadecimal digits of a digest
_STORE: Final = "UPDATE run SET rules = ? WHERE no = ?"
_LOOK: Final = "SELECT rules FROM run WHERE no = ?"


def digests_of_rules(values: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of each value by its key. The order of words in a list does not count.

    >>> one = digests_of_rules({"seeds": ["b", "a"], "max_depth": 3})
    >>> one == digests_of_rules({"max_depth": 3, "seeds": ["a", "b"]})
    True
    >>> one == digests_of_rules({"seeds": ["b", "a"], "max_depth": 4})
    False
    """
    return {key: _digest(_without_order(value)) for key, value in values.items()}


def _without_order(value: Any) -> Any:
    if isinstance(value, list | tuple) and all(isinstance(one, str) for one in value):
        return sorted(value)
    return value


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:_DIGITS]


def differing_rules(own: Mapping[str, str], agreed: Mapping[str, str]) -> list[str]:
    """Return the keys with different digests; a key that one side does not know is no difference.

    >>> differing_rules({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "0", "d": "4"})
    ['b']
    """
    return [key for key, digest in own.items() if agreed.get(key, digest) != digest]


def store_run_row_rules(connection: Connection, run: int, rules: Mapping[str, str]) -> None:
    """Store what the workers of a run have to agree on. The caller opens the transaction."""
    connection.execute(_STORE, (json.dumps(dict(rules)), run))


def check_run_row_rules(
    connection: Connection, source: str, run: int, rules: Mapping[str, str]
) -> None:
    """Compare the rules of a worker with those of the run that it joins.

    Raises:
        RunDiffersError: they differ; the message names their keys.
    """
    agreed = json.loads(str(connection.execute(_LOOK, (run,)).get))
    differing = differing_rules(rules, agreed)
    if differing:
        raise RunDiffersError(source, run, differing)

"""Whether a server that makes vectors has the model that made the stored ones."""

from __future__ import annotations

from typing import NamedTuple


class Answering(NamedTuple):
    """A server that makes vectors, as it answers."""

    model: str | None  #: the name that it answers with; None or empty: none, or not known
    url: str | None  #: its address; None: not known


def has_same_model(stored: Answering, now: Answering) -> bool:
    """Whether vectors of a server may be compared with those that are stored.

    The names in the answers decide, so that a server may move. Where one has none, the address
    stands for the model.

    >>> old = Answering("m", "http://a")
    >>> has_same_model(old, Answering("m", "http://b")), has_same_model(old, Answering("n", "http://a"))
    (True, False)
    >>> unnamed = Answering("", "http://a")
    >>> has_same_model(old, unnamed), has_same_model(unnamed, Answering("", "http://b"))
    (True, False)

    Source: M-47.
    """
    if stored.model and now.model:
        return stored.model == now.model
    return stored.url is None or now.url is None or stored.url == now.url

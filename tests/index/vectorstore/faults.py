"""Faults of a server of vector stores that no real one can be made to show."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.index.vectorstore.store_server import FOREVER, Asked, Stores
from tests.openai_server import Reply, error

#: The first bytes of a page of a list, before the connection ends.
_CUT: Final = Reply(b'{"object": "list", "has_more": false, "data": [', breaks_off=True)


def busy(server: Stores) -> None:
    """Nothing may be attached now."""
    refusal = error("slow down", 429, retry_after="7")
    server.answer = lambda asked: refusal if asked.act == "attach" else None


def stuck(server: Stores) -> None:
    """A file stays in progress for ever."""
    server.looks = FOREVER


def broken_at_creation(server: Stores) -> None:
    """No file can be uploaded."""
    server.answer = lambda asked: error("broken", 500) if asked.act == "upload" else None


def cut(server: Stores) -> None:
    """Each list breaks off in its second page."""

    def answer(asked: Asked) -> Reply | None:
        return _CUT if asked.after else None

    server.answer = answer


def renamed(server: Stores) -> None:
    """Names are rewritten."""
    server.renames = lambda name: f"assistant-{name.upper().replace('.', '_')}.TXT"


def blunt(server: Stores) -> None:
    """The ways of ogx (tests/servers/ogx/README.md)."""
    server.is_blunt = True


FAULTS: Final[Mapping[str, Callable[[Stores], None]]] = {
    fault.__name__: fault for fault in (busy, stuck, broken_at_creation, cut, renamed, blunt)
}


def mend(server: Stores) -> None:
    """End every fault."""
    fresh = Stores(0)
    for name in ("answer", "looks", "renames", "is_blunt"):
        setattr(server, name, getattr(fresh, name))
    for entries in server.stores.values():
        for entry in entries.values():
            entry["left"] = 0

"""What kills a push at a place; imported before its command begins (``ARRANGED_BY``).

DIES_AT     number of the place, or its name: the first of that name; 0: nowhere
PLACES      file that gets the names of all places that were passed
LIST_PAGE   entries of a list in one answer; without it as many as the product asks for

A place is before or after a request to the server of vector stores, or a transaction of the rows.
"""

import os
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from smartcrawl.index.vectorstore import api
from smartcrawl.index.vectorstore.api import VectorStoreApi
from smartcrawl.index.vectorstore.rows import StoreRows

_REQUESTS = (
    "attach", "attached", "check_store", "delete", "detach", "listed_page", "upload",
    "uploaded_page",
)  # fmt: skip
TRANSACTIONS = (
    "adopt", "drop", "intend", "leave", "note", "note_completed", "note_listed", "note_upload",
)  # fmt: skip

_passed: list[str] = []


def passing(place: str) -> None:
    """Note a place, and die at it if it is the one."""
    _passed.append(place)
    with Path(os.environ["PLACES"]).open("a", encoding="utf-8") as file:
        print(place, file=file)
    if os.environ["DIES_AT"] in (str(len(_passed)), place):
        os.kill(os.getpid(), signal.SIGKILL)


def observed(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(work)
    def called(*args: Any, **more: Any) -> Any:
        passing(f"before {name}")
        found = work(*args, **more)
        passing(f"after {name}")
        return found

    return called


if "LIST_PAGE" in os.environ:
    api._PAGE = int(os.environ["LIST_PAGE"])
if "PLACES" in os.environ:  # pytest imports every module for its doctests
    for _owner, _names in ((VectorStoreApi, _REQUESTS), (StoreRows, TRANSACTIONS)):
        for _name in _names:
            setattr(_owner, _name, observed(_name, getattr(_owner, _name)))

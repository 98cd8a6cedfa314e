"""One server of a kind for all processes that run tests: a start takes longer than most tests."""

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.servers.cache import locked
from tests.servers.elastic import Elasticsearch, elasticsearch

Own = TypeVar("Own")
Starting = Callable[[], AbstractContextManager[Elasticsearch]]


class SharedElasticsearch(Elasticsearch):
    """An Elasticsearch that other processes use as well, so that no test may end it."""

    def __init__(self, port: int, version: str) -> None:
        super().__init__(Path(), Path(), Path(), version, "")
        self.port = port

    @property
    def running(self) -> bool:
        return True

    def stop(self) -> None:
        raise RuntimeError("this Elasticsearch is shared: take the fixture own_elasticsearch")

    kill = restart = stop


@contextmanager
def shared_elasticsearch(
    folder: Path, starting: Starting = elasticsearch
) -> Iterator[SharedElasticsearch]:
    """Use the Elasticsearch of a folder."""
    told = shared_server(folder, "elasticsearch", starting, lambda own: [own.port, own.version])
    with told as (port, version):
        yield SharedElasticsearch(port, version)


@contextmanager
def shared_server(
    folder: Path,
    name: str,
    starting: Callable[[], AbstractContextManager[Own]],
    told: Callable[[Own], Any],
) -> Iterator[Any]:
    """Use the server of a folder, which the first process starts, and ends when no other uses it.

    Yields what `told` returns about the server, as it comes out of JSON.
    """
    place = folder / f"{name}.json"
    with (folder / f"{name}.users").open("ab") as users, ExitStack() as stack:
        fcntl.flock(users, fcntl.LOCK_SH)  # it is not ended while a process holds this
        with locked(folder / f"{name}.lock"):
            if not place.exists():
                own = stack.enter_context(starting())
                stack.callback(place.unlink)
                stack.callback(fcntl.flock, users, fcntl.LOCK_EX)
                place.write_text(json.dumps(told(own)))
            found = json.loads(place.read_text())
        yield found

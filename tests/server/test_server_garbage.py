"""A server looks for garbage among what its requests leave alone."""

import gc
import signal
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from smartcrawl.server import running
from smartcrawl.server.limits import RequestCounts
from tests.server.api_client import server_options


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Nothing is left out before or after."""
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_is_loaded_when_a_server_begins_is_left_out_of_collections(
    monkeypatch: pytest.MonkeyPatch,
):
    left_out: list[int] = []

    class Server:
        def __init__(self, *_: Any) -> None:
            pass

        def run(self, **_: Any) -> None:
            left_out.append(gc.get_freeze_count())

    monkeypatch.setattr(running, "_Server", Server)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    loaded = len(gc.get_objects())
    options = server_options()
    with socket.socket() as listening:
        app: Any = object()
        running.serve_api(app, listening, options, RequestCounts(options))

    assert left_out[0] > loaded / 2

"""The server of vector stores of these tests is one by the client of npm, too."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.index.vectorstore.faults import FAULTS
from tests.index.vectorstore.store_server import STORE, Stores, stores_server
from tests.npm import npm_package
from tests.openai_server import KEY
from tests.servers import UnavailableError, absent

FOREIGN = "7.57.0"  #: version of the package ``openai`` of npm


def run_foreign(server: Stores, script: str, *args: str) -> None:
    """Run a script with the client of npm; it says when all is as it expects."""
    package = npm_package("openai", FOREIGN)
    if isinstance(package, UnavailableError):
        absent(f"the client of npm is not available: {package}")
    done = subprocess.run(
        [package.node, Path(__file__).with_name(script), package.folder, server.url, STORE, *args],
        capture_output=True, text=True, check=False, timeout=60,
        env=os.environ | {"OPENAI_API_KEY": KEY},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"


@pytest.mark.long
def test_a_foreign_client_finds_the_api_as_it_expects_it():
    with stores_server() as server:
        run_foreign(server, "foreign_client.mjs")

        assert len(server.texts()) == 6


@pytest.mark.long
@pytest.mark.parametrize("name", [*FAULTS, "attributes"])
def test_a_foreign_client_meets_each_fault_as_one(name: str):
    with stores_server() as server:
        for n in range(4):
            server.put(f"text {n}")
        if name in FAULTS:
            FAULTS[name](server)

        run_foreign(server, "foreign_faults.mjs", name)

"""The server of vector stores of these tests is one by the client of npm, too."""

import os
import subprocess
from pathlib import Path

from tests.index.vectorstore.store_server import STORE, stores_server
from tests.npm import npm_package
from tests.openai_server import KEY
from tests.servers import UnavailableError, absent

FOREIGN = "7.57.0"  #: version of the package ``openai`` of npm


def test_a_foreign_client_finds_the_api_as_it_expects_it():
    package = npm_package("openai", FOREIGN)
    if isinstance(package, UnavailableError):
        absent(f"the client of npm is not available: {package}")
    script = Path(__file__).with_name("foreign_client.mjs")
    with stores_server() as server:
        server.looks = 0
        done = subprocess.run(
            [package.node, script, package.folder, server.url, STORE],
            capture_output=True, text=True, check=False, timeout=60,
            env=os.environ | {"OPENAI_API_KEY": KEY},
        )  # fmt: skip

        assert done.returncode == 0, done.stderr
        assert done.stdout == "done\n"
        assert len(server.texts()) == 6

"""Write the pictures of the pages in docs/images: ``python -m tests.server.pages.pictures``.

They show the site of ``smartcrawl demo`` after two crawls, between which it changed, in a Chromium
of this machine. Nothing compares them: times and letters differ from machine to machine.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from smartcrawl.commands.demo_stage import Site, serving_demo_site
from smartcrawl.extract.browser.launch import find_browser
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.keys import Scope, make_api_key
from tests.server.library.conftest import declare
from tests.server.pages.chrome import Tab, browsing
from tests.server.test_serve import Server, serving

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
_PORT = 8_000
SEARCH = "/?q=sticky+dough"
#: Pages by the names of their pictures.
PAGES = {
    "crawl": "/crawl", "job": "/jobs/new", "sources": "/sources", "status": "/status",
    "hosts": "/hosts", "frontier": "/frontier", "libraries": "/libraries", "runs": "/runs",
    "run": "/runs/2", "changes": "/changes", "removals": "/removals", "look-up": "/records",
    "record": f"/records?url=http%3A%2F%2F127.0.0.1%3A{_PORT}%2Fbaking.html",
    "docs": "/docs", "try": "/try", "keys": "/keys", "search": SEARCH,
}  # fmt: skip
_DESKTOP, _PHONE = (1_100, 760), (360, 720)


def main() -> None:
    """Crawl, serve, and write them."""
    with tempfile.TemporaryDirectory() as name, showing(Path(name)) as (server, tab):
        _write(tab, f"{server.url}/login", "login", _DESKTOP)
        log_in(tab, server, Path(name))
        for picture, path in PAGES.items():
            _write(tab, f"{server.url}{path}", picture, _DESKTOP)
        _write(tab, f"{server.url}{SEARCH}", "search-phone", _PHONE, dark=True)


@contextmanager
def showing(folder: Path) -> Iterator[tuple[Server, Tab]]:
    """Crawl the site of the demo twice, serve what was found, and open a tab."""
    site = Site()
    with serving_demo_site(site, port=_PORT) as url:
        _crawl(folder, url)
        site.change()
        _crawl(folder, url)
    declare(folder, description="Recipes and how they were tried", vector_store_name="recipes")
    storage = {"PERSISTENT_STORAGE_PATH": str(folder / "library")}
    running = serving(folder, **storage)
    with running as server, browsing(find_browser()) as browser, browser.tab() as tab:
        yield server, tab


def log_in(tab: Tab, server: Server, folder: Path) -> None:
    """Log in as an administrator."""
    connection = registry_database(folder / "registry.db").open()
    with transaction(connection):
        key, _ = make_api_key(connection, "baker", Scope.ADMIN, int(time.time()))
    connection.close()
    tab.go(f"{server.url}/login")
    tab.reach("#key")
    tab.type(key)
    tab.enter()


def _crawl(folder: Path, url: str) -> None:
    command = [sys.executable, "-m", "smartcrawl", "crawl", url, "--data-dir", str(folder)]
    subprocess.run([*command, "-s", "RENDER=no"], check=True, capture_output=True)


def _write(tab: Tab, url: str, name: str, size: tuple[int, int], *, dark: bool = False) -> None:
    tab.resize(*size, dark=dark)
    tab.go(url)
    (IMAGES / f"pages-{name}.webp").write_bytes(tab.picture())


if __name__ == "__main__":
    main()

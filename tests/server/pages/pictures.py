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
URL = f"http://127.0.0.1:{_PORT}/"
SEARCH = "/?q=sticky+dough"
TRIED = f"/try?urls=http%3A%2F%2F127.0.0.1%3A{_PORT}%2Fbaking.html&source=127.0.0.1%3A{_PORT}"
#: Pages by the names of their pictures.
PAGES = {
    "crawl": "/crawl", "job": "/jobs/new", "sources": "/sources", "status": "/status",
    "hosts": "/hosts", "frontier": "/frontier", "libraries": "/libraries", "runs": "/runs",
    "run": "/runs/2", "changes": "/changes", "removals": "/removals", "look-up": "/records",
    "record": f"/records?url=http%3A%2F%2F127.0.0.1%3A{_PORT}%2Fbaking.html",
    "docs": "/docs", "try": "/try", "keys": "/keys", "search": SEARCH,
}  # fmt: skip
#: Pages to which a link or a button leads: the path, and its words.
FURTHER = {
    "change": ("/changes", "what changed"), "forget": (PAGES["record"], "Forget …"),
    "revoke": ("/keys", "Revoke …"), "preview": (TRIED, f"Request it once, as 127.0.0.1:{_PORT}"),
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
        _write_further(tab, server)
        with _slow_crawl(Path(name)):
            tab.go(f"{server.url}/runs")
            while "open" not in tab.ask("document.querySelector('tbody tr').innerText"):
                time.sleep(0.5)
                tab.go(f"{server.url}/runs")
            live = server.url + tab.ask("document.querySelector('tbody a').pathname")
            tab.go(live)
            tab.wait("document.querySelector('#live-chart svg text')")
            _write(tab, live, "run-live", _DESKTOP)


@contextmanager
def showing(folder: Path) -> Iterator[tuple[Server, Tab]]:
    """Crawl the site of the demo twice, serve what was found, and open a tab."""
    site = Site()
    settings = {
        "PERSISTENT_STORAGE_PATH": str(folder / "library"), "ALLOW_NETWORKS": "127.0.0.0/8",
        "RENDER": "no",
    }  # fmt: skip
    with serving_demo_site(site, port=_PORT):
        _crawl(folder)
        site.change()
        _crawl(folder)
        declare(folder, description="Recipes and how they were tried", vector_store_name="recipes")
        running = serving(folder, **settings)
        with running as server, browsing(find_browser()) as browser, browser.tab() as tab:
            yield server, tab


def _write_further(tab: Tab, server: Server) -> None:
    """Write the pages of FURTHER, of a removal, and of a crawl that was begun in the browser."""
    tab.resize(*_DESKTOP)
    for picture, (path, words) in FURTHER.items():
        tab.go(f"{server.url}{path}")
        tab.follow(words)
        _keep(tab, picture)
    tab.go(f"{server.url}/removals")
    tab.reach("input[name=max]")
    tab.type("1")
    tab.enter()
    tab.wait("document.querySelector('main').innerText.includes('1 page removed')")
    _keep(tab, "order")
    tab.go(f"{server.url}/crawl")
    tab.reach("#url")
    tab.type(f"{URL}baking.html")
    tab.enter()
    tab.wait("document.querySelector('main').innerText.includes('The crawl is done')")
    _keep(tab, "crawl-job")
    job = tab.ask("location.pathname").rpartition("/")[2]
    _write(tab, f"{server.url}/jobs/{job}/delete", "delete", _DESKTOP)


@contextmanager
def _slow_crawl(folder: Path) -> Iterator[None]:
    """Crawl for as long as a picture takes."""
    command = [*_crawling(folder), "-s", "DOWNLOAD_DELAY=3"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as crawl:
        try:
            yield
        finally:
            crawl.kill()


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


def _crawling(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "smartcrawl", "crawl", URL, "--data-dir", str(folder)]
    return [*command, "-s", "RENDER=no"]


def _crawl(folder: Path) -> None:
    subprocess.run(_crawling(folder), check=True, capture_output=True)


def _write(tab: Tab, url: str, name: str, size: tuple[int, int], *, dark: bool = False) -> None:
    tab.resize(*size, dark=dark)
    tab.go(url)
    _keep(tab, name)


def _keep(tab: Tab, name: str) -> None:
    (IMAGES / f"pages-{name}.webp").write_bytes(tab.picture())


if __name__ == "__main__":
    main()

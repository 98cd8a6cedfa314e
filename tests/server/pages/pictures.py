"""Write the pictures of the pages in docs/images: ``python -m tests.server.pages.pictures``.

They show the site of ``smartcrawl demo`` after two crawls, between which it changed, in a Chromium
of this machine. Nothing compares them: times and letters differ from machine to machine.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from smartcrawl.commands.demo_stage import Site, serving_demo_site
from smartcrawl.extract.browser.launch import find_browser
from tests.server.pages.chrome import Tab, browsing
from tests.server.test_serve import serving

IMAGES = Path(__file__).resolve().parents[3] / "docs" / "images"
SEARCH = "/?q=sticky+dough"
#: Pages by the names of their pictures.
PAGES = {
    "crawl": "/crawl", "sources": "/sources", "status": "/status", "hosts": "/hosts",
    "runs": "/runs", "run": "/runs/1", "removals": "/removals", "record": "/records/2",
    "docs": "/docs", "search": SEARCH,
}  # fmt: skip
_PORT = 8_000
_DESKTOP, _PHONE = (1_100, 760), (360, 720)


def main() -> None:
    """Crawl, serve, and write them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = Site()
        with serving_demo_site(site, port=_PORT) as url:
            _crawl(folder, url)
            site.change()
            _crawl(folder, url)
        with serving(folder) as server, browsing(find_browser()) as browser, browser.tab() as tab:
            for picture, path in PAGES.items():
                _write(tab, f"{server.url}{path}", picture, _DESKTOP)
            _write(tab, f"{server.url}{SEARCH}", "search-phone", _PHONE, dark=True)


def _crawl(folder: Path, url: str) -> None:
    command = [sys.executable, "-m", "smartcrawl", "crawl", url, "--data-dir", str(folder)]
    subprocess.run([*command, "-s", "RENDER=no"], check=True, capture_output=True)


def _write(tab: Tab, url: str, name: str, size: tuple[int, int], *, dark: bool = False) -> None:
    tab.resize(*size, dark=dark)
    tab.go(url)
    (IMAGES / f"pages-{name}.webp").write_bytes(tab.picture())


if __name__ == "__main__":
    main()

"""Sites that programs of npm make of Markdown: docsify in the browser, VitePress before it."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.crawls.apps import App, AppSite, by_hash, library
from tests.npm import npm_package
from tests.servers import UnavailableError
from tests.servers.cache import absent
from tests.site_server import Page

MARKDOWN = "text/markdown; charset=utf-8"
VITEPRESS = "1.6.4"
_SECONDS = 300
_TYPES = {
    ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".json": "application/json",
    ".css": "text/css",
}  # fmt: skip
DOCSIFY = """<!doctype html><html lang="en"><title>App</title><div id="app"></div>
<script>window.$docsify = {loadSidebar: true, name: 'App'}</script>
<script src="/docsify.js"></script></html>
"""


def _markdown(name: str, text: str) -> str:
    return f"# {name}\n\n{text}\n"


class Docsify(App):
    """It reads Markdown in the browser."""

    def put(self, path: str, text: str) -> None:
        """Publish a file of Markdown."""
        self.site.pages[path] = Page(text, content_type=MARKDOWN)


def docsify(names: Sequence[str]) -> App:
    """docsify: one document, which reads Markdown."""
    return Docsify(
        AppSite(),
        by_hash(names),
        {"/docsify.js": library("docsify", "4.13.1", "lib/docsify.min.js")},
        data=lambda name: "/README.md" if name == names[0] else f"/{name}.md",
        shell=DOCSIFY,
        has_history=False,
        keys="render = \"always\"\nrender_hash_routes = true\nexcluded_patterns = ['#.*[?&]id=']\n",
        menu="/_sidebar.md",
        as_data=_markdown,
        as_menu=lambda entries: "".join(
            f"- [{name}]({path.removeprefix('/#')})\n" for name, path in entries
        ),
    )


@dataclass
class VitePress(App):
    """Its pages are built before they are published."""

    _folder: Path = field(default_factory=Path)
    _node: str = ""
    _program: Path = field(default_factory=Path)

    @contextmanager
    def running(self) -> Iterator[AppSite]:
        """Serve what was built in a folder that exists so long."""
        package = npm_package("vitepress", VITEPRESS)
        if isinstance(package, UnavailableError):
            absent(f"VitePress is not available: {package}")
        self._node, self._program = package.node, package.folder / "bin/vitepress.js"
        with tempfile.TemporaryDirectory() as folder:
            self._folder = Path(folder)
            (self._folder / ".vitepress").mkdir()
            (self._folder / "node_modules").symlink_to(package.folder.parent)
            with super().running() as site:
                yield site

    def put(self, path: str, text: str) -> None:
        """Write a file of the sources."""
        (self._folder / path.lstrip("/")).write_text(text)

    def drop(self, name: str) -> None:
        """Remove the source of a page."""
        (self._folder / self.data(name).lstrip("/")).unlink()

    def build(self) -> None:
        """Build it, and publish the files."""
        built = self._folder / ".vitepress/dist"
        shutil.rmtree(built, ignore_errors=True)
        done = subprocess.run(
            [self._node, str(self._program), "build", str(self._folder)],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        pages: dict[str, Page | str | bytes] = {}
        for file in built.rglob("*"):
            kind = _TYPES.get(file.suffix)
            if file.is_file() and kind is not None and file.name != "404.html":
                path = "/" + file.relative_to(built).as_posix().removesuffix("index.html")
                pages[path] = Page(file.read_bytes(), content_type=kind)
        self.site.pages = pages


def vitepress(names: Sequence[str]) -> App:
    """VitePress: pages with their text, and scripts that go on from it."""
    return VitePress(
        AppSite(),
        {name: f"/{name}.html" if place else "/" for place, name in enumerate(names)},
        data=lambda name: "/index.md" if name == names[0] else f"/{name}.md",
        has_history=False,
        keys='render = "auto"\n',
        menu="/.vitepress/config.mjs",
        as_data=_markdown,
        as_menu=lambda entries: (
            "export default "
            + json.dumps(
                {
                    "title": "App",
                    "themeConfig": {
                        "sidebar": [
                            {"text": name, "link": path.removesuffix(".html")}
                            for name, path in entries
                        ]
                    },
                }
            )
        ),
    )

"""The paths of all pages, as their modules add them: a new page is in it by itself."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from unittest.mock import patch

from smartcrawl.server.pages.pages import Pages
from tests.server.api_client import application

#: What is no page: scripts, descriptions, files, and a part of a page.
_OTHERS = ("/search.js", "/opensearch.xml", "/static/{name}", "/jobs/fires")


def page_routes(folder: Path) -> list[str]:
    """The routes of all pages; those of forms have one of their own that shows them."""
    found: list[str] = []
    add: Callable[..., None] = Pages.add

    def noted(pages: Pages, path: str, *given: object, method: str = "GET", **more: object) -> None:
        add(pages, path, *given, method=method, **more)
        if method == "GET" and path not in _OTHERS:
            found.append(path)

    with patch.object(Pages, "add", noted):
        application(folder)
    return found


def page_paths(folder: Path, values: Mapping[str, object]) -> Iterator[str]:
    """Yield a path of each page; `values` by the names in the routes."""
    for route in page_routes(folder):
        try:
            yield route.format(**values)
        except KeyError as name:
            raise AssertionError(f"{route} is a new page: give {name} a value") from None

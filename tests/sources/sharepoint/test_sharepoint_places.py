"""Look-ups of a library by its path among all that its site has, without a server."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.sources.sharepoint.access import LibraryRefusedError
from smartcrawl.sources.sharepoint.graph import GraphPlaces

BASE = "https://graph.example/v1.0"
SITE = "https://a.example/sites/demo"


def page(*names: str, following: str = "") -> dict[str, object]:
    found = {"value": [{"id": name, "webUrl": f"{SITE}/{name}"} for name in names]}
    return found | ({"@odata.nextLink": f"{BASE}/sites/s/drives?{following}"} if following else {})


def places(*pages: dict[str, object]) -> GraphPlaces:
    """Look-ups for the library `Docs`, to which the site answers these pages of its drives."""
    answers = [{"id": "s", "webUrl": SITE}, *pages]
    place: Any = SimpleNamespace(site_url=SITE, url_part="/Docs")
    client: Any = SimpleNamespace(body=lambda url: json.dumps(answers.pop(0)).encode())
    return GraphPlaces(place, BASE, client)


def test_a_library_is_found_on_any_page_of_those_of_its_site():
    found = places(page("A", following="2"), page("B", following="3"), page("Docs")).drive()

    assert found.id == "Docs"


def test_pages_of_libraries_that_lead_in_a_circle_are_refused():
    with pytest.raises(LibraryRefusedError, match="leads to a page that was read"):
        places(page("A", following="2"), page("B", following="2")).drive()

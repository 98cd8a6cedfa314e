"""Whole crawls of a library, change by change (R3-88 to R3-103)."""

from __future__ import annotations

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl
from tests.servers.sharepoint import Library, SharepointServer


@pytest.fixture
def libraries(crawl: Crawl, sharepoint: SharepointServer) -> LibraryCrawl:
    return LibraryCrawl(crawl, sharepoint)


@pytest.fixture
def documents(libraries: LibraryCrawl) -> Library:
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    library.add("Reports/Q1.txt", "The first quarter was warm.")
    library.add("Reports/Q2.txt", "The second quarter was windy.")
    library.add("readme.md", "# Read me\n\nWords about everything.")
    library.add("picture.png", b"\x89PNG")
    libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
    return library


def test_a_first_download_brings_files_maps_and_hits(
    libraries: LibraryCrawl, documents: Library
) -> None:
    found = libraries.download()
    print(found["log"])
    assert libraries.disk() == {
        "Reports/Q1.txt": b"The first quarter was warm.",
        "Reports/Q2.txt": b"The second quarter was windy.",
        "readme.md": b"# Read me\n\nWords about everything.",
    }
    assert found["added"] == 3
    assert found["complete"]
    again = libraries.download()
    assert libraries.downloads() == 0
    assert again["unchanged"] == 3

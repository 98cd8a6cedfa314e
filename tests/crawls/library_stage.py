"""A library that was crawled once, from which many tests begin: its tenant and what it left."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.libraries import LibraryCrawl
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.tenant import Tenant

Q1, Q2 = b"The first quarter was warm.", b"The second quarter was windy."
README = b"# Read me\n\nWords about everything."
BEFORE = {"Reports/Q1.txt": Q1, "Reports/Q2.txt": Q2, "readme.md": README}
#: Of the JSON, where nothing was to be corrected.
INTEGRITY = {"missingInMap": 0, "missingOnDisk": 0, "orphans": 0, "moved": 0}


def _copied(tenant: Tenant) -> Tenant:
    return copy.deepcopy(tenant, {id(tenant.lock): tenant.lock})


class LibraryStage:
    """What a first crawl of a library left, and the library as it was then."""

    def __init__(
        self,
        crawl: Crawl,
        server: SharepointServer,
        files: dict[str, bytes] = BEFORE,
        *,
        api: str = "rest",
    ) -> None:
        server.begin()
        self._api = api
        self._server = server
        site = server.tenant.site("/sites/demo")
        library = site.library("Documents", "Shared Documents")
        for path, content in files.items():
            library.add(path, content)
        libraries = LibraryCrawl(crawl, server, api)
        libraries.declare(site, "file_sources", sharepoint_url_part="/Shared Documents")
        self.first = libraries.download()
        self._known = crawl.data_dir.rename(crawl.folder / "known")
        self._tenant, self._issuer = server.tenant, server.issuer
        self._changed: dict[Callable[[Library], Any], Tenant] = {}

    def begin(
        self, crawl: Crawl, change: Callable[[Library], Any] | None = None
    ) -> tuple[LibraryCrawl, Library]:
        """Let a crawl begin with what the first one left; return it and the library.

        `change` is made once, so that new files have the same ids each time.
        """
        server = self._server
        server.begin()
        tenant = self._tenant
        if change is not None:
            if change not in self._changed:
                self._changed[change] = _copied(tenant)
                change(_library_of(self._changed[change]))
            tenant = self._changed[change]
        server.issuer, server.tenant = self._issuer, _copied(tenant)
        shutil.copytree(self._known, crawl.data_dir)
        return LibraryCrawl(crawl, server, self._api), _library_of(server.tenant)


def _library_of(tenant: Tenant) -> Library:
    library = tenant.sites[0].lists[0]
    assert isinstance(library, Library)
    return library


def staged(
    files: dict[str, bytes], scope: Path, ask: Any, server: SharepointServer, api: str = "rest"
) -> LibraryStage:
    """Return a stage whose first crawl is made in a folder."""
    return LibraryStage(Crawl(scope, ask), server, files, api=api)


@pytest.fixture(scope="module")
def rest_stage(
    tmp_path_factory: pytest.TempPathFactory, ask: Any, sharepoint_server: SharepointServer
) -> LibraryStage:
    """The three files of BEFORE, by REST."""
    return staged(BEFORE, tmp_path_factory.mktemp("staged"), ask, sharepoint_server)


@pytest.fixture(scope="module", params=["rest", "graph"])
def stage(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ask: Any,
    sharepoint_server: SharepointServer,
) -> LibraryStage:
    """The three files of BEFORE, by each API; by Graph, a crawl has a token."""
    folder = tmp_path_factory.mktemp("staged")
    return staged(BEFORE, folder, ask, sharepoint_server, api=request.param)

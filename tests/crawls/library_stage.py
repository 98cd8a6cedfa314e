"""A library that was crawled once, from which many tests begin: its tenant and what it left."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests import servers
from tests.crawls.commands import Crawl, CrawlIn, Remote
from tests.crawls.killing import copy_database, name_of
from tests.crawls.libraries import LibraryCrawl
from tests.servers.sharepoint import Library, SharepointServer
from tests.servers.sharepoint.tenant import Tenant

Q1, Q2 = b"The first quarter was warm.", b"The second quarter was windy."
README = b"# Read me\n\nWords about everything."
BEFORE = {"Reports/Q1.txt": Q1, "Reports/Q2.txt": Q2, "readme.md": README}


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
        postgres: servers.Postgres | None = None,
    ) -> None:
        """`postgres`: the server of the registry of `crawl`; None: it is a file."""
        server.begin()
        self._remote = (postgres, crawl.registry) if postgres is not None else None
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
        assert isinstance(crawl.registry, Remote) == (self._remote is not None)
        if self._remote is not None:
            postgres, known = self._remote
            copy_database(crawl.registry, postgres, name_of(known.url))
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


class LibraryStages:
    """The three files of BEFORE, by each API and with each database, made when asked for."""

    def __init__(
        self,
        request: pytest.FixtureRequest,
        scope: Path,
        crawl_in: CrawlIn,
        server: SharepointServer,
    ) -> None:
        self._request, self._scope, self._crawl_in, self._server = request, scope, crawl_in, server
        self._found: dict[tuple[str, str], LibraryStage] = {}
        self._databases = ExitStack()

    def of(self, api: str, stack: str) -> LibraryStage:
        """Return the stage of an API, `rest` or `graph`, and of a database."""
        key = api, stack
        if key not in self._found:
            folder = self._scope / f"{api}-{stack}"
            folder.mkdir()
            postgres = url = None
            if stack == "postgres":
                postgres = self._request.getfixturevalue("postgres")
                postgres.start()  # where an earlier test has killed it
                url = self._databases.enter_context(postgres.database())
            crawl = self._crawl_in(folder, url)
            self._found[key] = LibraryStage(crawl, self._server, api=api, postgres=postgres)
        return self._found[key]

    def close(self) -> None:
        """Drop the databases."""
        self._databases.close()


@pytest.fixture(scope="module")
def rest_stage(
    tmp_path_factory: pytest.TempPathFactory, crawl_in: CrawlIn, sharepoint_server: SharepointServer
) -> LibraryStage:
    """The three files of BEFORE, by REST."""
    return LibraryStage(crawl_in(tmp_path_factory.mktemp("staged"), None), sharepoint_server)


@pytest.fixture(scope="module")
def library_stages(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    crawl_in: CrawlIn,
    sharepoint_server: SharepointServer,
) -> Iterator[LibraryStages]:
    """Stages that tests of a module share."""
    stages = LibraryStages(request, tmp_path_factory.mktemp("stages"), crawl_in, sharepoint_server)
    yield stages
    stages.close()

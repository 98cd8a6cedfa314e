"""The fixtures of the lab: a site in memory, its crawls in this process, and both in short."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from smartcrawl.extract import documents
from smartcrawl.registry.runs import logins
from tests.crawls.commands import CrawlIn
from tests.lab.lab import Lab
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite, Web
from tests.lab.readers import LabPool
from tests.registry.kept import kept_connections
from tests.servers.sharepoint import SharepointServer
from tests.tiers import DATABASES

_OF_THE_LAB = ("crawl", "lab", "stack")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every story with both databases; the name of the database is in the test's id."""
    only = metafunc.definition.get_closest_marker("sqlite") is not None
    marks = metafunc.definition.iter_markers("parametrize")
    only |= any("stack" in mark.args[0] for mark in marks)  # the test says with which
    if set(_OF_THE_LAB) & set(metafunc.fixturenames) and not only:
        metafunc.parametrize("stack", DATABASES, indirect=True)


@pytest.fixture(autouse=True, scope="session")
def readers() -> Iterator[None]:
    """Have the processes that read documents stay from run to run."""
    with patch.object(documents, "FormatPool", LabPool):
        yield


@pytest.fixture(autouse=True)
def connections(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keep connections to SQLite open from command to command; with --all none is."""
    if request.config.option.all:
        yield
        return
    with kept_connections():
        yield


@pytest.fixture(autouse=True, scope="session")
def marks() -> Iterator[None]:
    """Compute the marks of refused logins in no time: stories fail to log in many times."""
    with patch.object(logins, "_COST", 2):
        yield


@pytest.fixture
def site() -> LabSite:
    """A web site without pages."""
    return LabSite()


@pytest.fixture
def other() -> LabSite:
    """A second web site without pages, on another host."""
    return LabSite("other.example")


@pytest.fixture
def crawl(
    tmp_path: Path, site: LabSite, other: LabSite, stack: str, request: pytest.FixtureRequest
) -> Iterator[LabCrawl]:
    """Crawls of the sites, with an empty registry of their own."""
    if stack == "sqlite":
        yield _with_libraries(LabCrawl(tmp_path, Web(site, other)), request)
        return
    spare = request.getfixturevalue("spare_registries")
    url = spare.take()
    yield _with_libraries(LabCrawl(tmp_path, Web(site, other), url), request)
    spare.put_back(url)


def _with_libraries(crawl: LabCrawl, request: pytest.FixtureRequest) -> LabCrawl:
    """Let crawls ask the SharePoint of a test, if it has one."""
    if "sharepoint_server" in request.fixturenames:
        crawl.sharepoint = request.getfixturevalue("sharepoint_server")
    return crawl


@pytest.fixture(scope="session")
def crawl_in(sharepoint_server: SharepointServer) -> CrawlIn:
    """Make crawls of libraries in other folders than a test's own."""

    def made(folder: Path, url: str | None) -> LabCrawl:
        crawl = LabCrawl(folder, Web(), url)
        crawl.sharepoint = sharepoint_server
        return crawl

    return made


@pytest.fixture
def lab(site: LabSite, crawl: LabCrawl) -> Lab:
    """The site and its runs, in short words."""
    return Lab(site, crawl)

"""The cleanup of files_metadata.json over HTTP (E-20, R3-148)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl import settings
from smartcrawl.model.option_groups import VectorStoreOptions
from tests.index.vectorstore.store_server import STORE, Asked, Stores, stores_server
from tests.openai_server import Reply, error
from tests.server.api_client import application, ask, error_of
from tests.server.library.conftest import declare

CLEANUP = "/v2/crawler/cleanup_metadata"
SITE = {"site_url": "https://contoso.sharepoint.com/sites/a", "filter": ""}
SOURCE = SITE | {"source_id": "source01", "sharepoint_url_part": "/Shared Documents"}
HEAD = "openai_file_id,sharepoint_unique_file_id\r\n"


class Archive:
    """An API, a vector store with one of two files, and the metadata of both."""

    def __init__(self, folder: Path, stores: Stores) -> None:
        self.stores = stores
        self.kept = stores.put("kept")
        self.domain = folder / "library" / "domains" / "DOMAIN01"
        declare(folder, vector_store_id=STORE, list_sources=[])
        self.metadata = self.domain / "files_metadata.json"
        entries = [
            {"openai_file_id": file, "sharepoint_unique_file_id": "1-2", "custom": file}
            for file in (self.kept, "file-gone")
        ]
        self.metadata.write_text(json.dumps(entries))
        self.map = folder / "library/crawler/DOMAIN01/01_files/source01/vectorstore_map.csv"
        self.map.parent.mkdir(parents=True)
        self.map.write_text(f"{HEAD}{self.kept},1-2\r\n", newline="")
        server = VectorStoreOptions.server_of(settings.defaults | stores.settings)
        self.app = application(folder, run={"store_server": server})

    def ask(self, **query: str) -> httpx.Response:
        return ask(self.app, "GET", CLEANUP, params=query)

    def files(self) -> list[Any]:
        return [entry["openai_file_id"] for entry in json.loads(self.metadata.read_text())]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    with stores_server() as stores:
        monkeypatch.setenv("OPENAI_API_KEY", stores.settings["OPENAI_API_KEY"])
        yield Archive(tmp_path, stores)


@pytest.mark.covers("E-20", "R3-148")
def test_entries_that_the_store_lacks_are_removed(archive: Archive):
    answer = archive.ask(domain_id="DOMAIN01")
    assert (answer.status_code, answer.json()) == (200, {"removed": 1, "remaining": 1})
    assert archive.files() == [archive.kept]
    again = archive.ask(domain_id="DOMAIN01")
    assert again.json() == {"removed": 0, "remaining": 1}


def _cut(asked: Asked) -> Reply | None:
    return Reply({"object": "list"}) if asked.act == "list" else None


def _away(asked: Asked) -> Reply | None:
    return error("busy", 500)


def _refused(asked: Asked) -> Reply | None:
    return error("no right", 403)


@pytest.mark.covers("E-20", "R3-148")
@pytest.mark.parametrize("fault", [_cut, _away, _refused])
def test_a_list_that_is_not_read_to_its_end_removes_nothing(archive: Archive, fault):
    before = archive.metadata.read_bytes()
    archive.stores.answer = fault
    answer = archive.ask(domain_id="DOMAIN01")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert answer.headers["Retry-After"]
    assert "the list of the vector store could not be read" in answer.text
    assert archive.metadata.read_bytes() == before


@pytest.mark.covers("E-20")
def test_a_source_without_its_map_removes_nothing(archive: Archive):
    before = archive.metadata.read_bytes()
    archive.map.unlink()
    answer = archive.ask(domain_id="DOMAIN01")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert str(archive.domain.parents[2]) not in answer.text
    assert "a source has no whole map" in answer.text
    assert "could not be read to its end" not in answer.text
    assert archive.metadata.read_bytes() == before


@pytest.mark.covers("E-20", "R3-67")
def test_an_unknown_domain_and_a_store_that_is_gone_are_not_found(archive: Archive):
    before = archive.metadata.read_bytes()
    archive.stores.stores.clear()
    for domain in ("DOMAIN01", "DOMAIN02"):
        answer = archive.ask(domain_id=domain)
        assert (answer.status_code, error_of(answer)["code"]) == (404, "NOT_FOUND")
    assert archive.metadata.read_bytes() == before


@pytest.mark.covers("E-19", "R3-67")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_embedding_into_a_store_that_is_gone_is_no_job(archive: Archive, method: str):
    archive.stores.stores.clear()
    given = {"domain_id": "DOMAIN01"}
    words = {"params": given} if method == "GET" else {"json": given}
    answer = ask(archive.app, method, "/v2/crawler/embed_data", **words)
    assert (answer.status_code, error_of(answer)["code"]) == (404, "NOT_FOUND")
    assert "correct its vector_store_id" in answer.text
    assert archive.stores.acts == ["store"]


def test_a_wrong_query_is_refused(archive: Archive):
    for query in ({}, {"domain_id": "../x"}, {"domain_id": "DOMAIN01", "more": "1"}):
        answer = archive.ask(**query)
        assert (answer.status_code, error_of(answer)["code"]) == (400, "INVALID_INPUT")

"""Items of libraries as the registry's views show them: files, with their size and time."""

from pathlib import Path
from typing import Any

import pytest

from smartcrawl.model.times import iso_time
from tests.crawls.commands import Crawl
from tests.crawls.library_stage import BEFORE, LibraryStages, library_stages
from tests.registry.build import with_iso_times

__all__ = ["library_stages"]  # a fixture

_ENTITY = """
SELECT "displaySource", "type", "id", "RowKey", "fileLastModified", "fileLength", "sourceHost",
       "httpEtag", "fileEtag" FROM "IngestItems" ORDER BY "displaySource"
"""


@pytest.mark.covers("R0-31")
@pytest.mark.parametrize(("api", "stack"), [("rest", "sqlite"), ("graph", "postgres")])
def test_an_item_is_a_file_of_its_time_and_size(
    library_stages: LibraryStages, tmp_path: Path, ask: Any, spare_registries: Any,
    api: str, stack: str,
):  # fmt: skip
    url = spare_registries.take() if stack == "postgres" else None
    crawl = Crawl(tmp_path, ask, url)
    _, library = library_stages.of(api, stack).begin(crawl)

    rows = crawl.rows(_ENTITY)

    files = library.files()
    assert len(rows) == len(BEFORE)
    for source, kind, id_, key, modified, length, *web, etag in rows:
        (entry,) = (one for path, one in files.items() if source.endswith(f"/{path}"))
        assert (kind, id_, web) == ("file", f"file_{key}", [None, None])
        assert (modified, length) == (iso_time(entry.modified), len(entry.content))
        assert etag
    documents = with_iso_times(crawl.rows("SELECT last_modified FROM crawled_documents"))
    assert sorted(documents) == sorted((row[4],) for row in rows)
    if url is not None:
        spare_registries.put_back(url)

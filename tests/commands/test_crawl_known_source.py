"""What a crawl says of a source that is known, but not declared, is read and never written."""

from pathlib import Path

import apsw
import pytest

from smartcrawl.commands import crawl
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from tests import choices


def test_the_hint_for_an_undeclared_source_only_reads_and_closes_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    options = choices.options(tmp_path)
    registry_database(options.registry).open().close()
    opened: list[Connection] = []

    def written(connection: Connection) -> dict[str, dict[str, str]]:
        opened.append(connection)
        connection.execute("DELETE FROM source").fetchall()
        return {}

    monkeypatch.setattr(crawl, "refreshable_source_rows", written)

    with pytest.raises(RegistryError, match="read"):
        crawl._known_source(options, "docs")

    with pytest.raises(apsw.ConnectionClosedError):
        opened[0].execute("SELECT 1")

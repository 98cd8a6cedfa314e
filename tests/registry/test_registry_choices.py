"""What the operator chose shows in the registry's view, and only there."""

import pytest

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.urls import content_group, partition_key
from smartcrawl.registry.database.choices import choose
from tests.registry.build import Desk


@pytest.fixture
def desk():
    desk = Desk()
    desk.open()
    desk.write(desk.visit("http://a.example/page", text="a text"))
    desk.seal()
    yield desk
    desk.close()


@pytest.mark.covers("R0-08", "R0-81", "R0-95")
def test_the_partition_key_is_the_host_or_the_scheme(desk: Desk):
    keys = 'SELECT "PartitionKey" FROM "IngestItems"'
    assert desk.rows(keys) == [("a.example",)]
    choose(desk.connection, partition="scheme", table="IngestItems")
    assert desk.rows(keys) == [("http",)]
    choose(desk.connection, partition="host", table="IngestItems")
    assert desk.rows(keys) == [("a.example",)]


@pytest.mark.covers("R0-07", "R0-80")
def test_the_table_has_the_name_that_was_chosen_and_its_own(desk: Desk):
    choose(desk.connection, partition="host", table="Known")
    choose(desk.connection, partition="host", table="Known")
    assert desk.rows('SELECT count(*) FROM "Known"') == desk.rows(
        'SELECT count(*) FROM "IngestItems"'
    )
    choose(desk.connection, partition="host", table="Other")
    assert desk.rows("SELECT name FROM relation WHERE name IN ('Known', 'Other')") == [("Other",)]
    for name in ("record", "RECORD", "pages"):
        with pytest.raises(RegistryError, match="REGISTRY_TABLE_NAME"):
            choose(desk.connection, partition="host", table=name)
    choose(desk.connection, partition="host", table="IngestItems")
    assert desk.rows("SELECT name FROM relation WHERE name = 'Other'") == []


@pytest.mark.covers("R0-08", "R0-09", "R0-81")
@pytest.mark.parametrize(
    ("source", "by_host", "by_scheme"),
    [
        ("https://contoso.com/a", "contoso.com", "https"),
        ("http://a.example:8080/a", "a.example:8080", "http"),
        ("file:///c:/docs/a.pdf", "file", "file"),
        ("https://acc.blob.core.windows.net/docs/a.pdf", "acc/docs", "blob"),
        ("https://acc.file.core.windows.net/share/a.pdf", "acc/share", "share"),
        ("https://blob.core.windows.net/a", "blob.core.windows.net", "https"),
        ("s3://bucket/a", "s3", "s3"),
    ],
)
def test_files_are_parted_by_container_or_scheme(source, by_host, by_scheme):
    assert partition_key(source) == by_host
    assert partition_key(source, "scheme") == by_scheme


@pytest.mark.covers("R0-74")
def test_a_content_group_is_host_and_path():
    group = content_group("https://a.example/x")

    assert len(group) == 26
    for same in ("http://A.example/x/", "https://a.example/x?page=2", "https://a.example:443/x#y"):
        assert content_group(same) == group
    for other in ("https://b.example/x", "https://a.example/y", "https://a.example/X"):
        assert content_group(other) != group

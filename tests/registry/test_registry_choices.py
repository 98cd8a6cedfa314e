"""What the operator chose shows in the registry's view, and only there."""

import pytest

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.urls import url_content_group, url_partition_key
from smartcrawl.registry.database.choices import store_view_choices
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
    store_view_choices(desk.connection, partition="scheme", table="IngestItems")
    assert desk.rows(keys) == [("http",)]
    store_view_choices(desk.connection, partition="host", table="IngestItems")
    assert desk.rows(keys) == [("a.example",)]


@pytest.mark.covers("R0-07", "R0-80")
def test_the_table_has_the_name_that_was_chosen_and_its_own(desk: Desk):
    store_view_choices(desk.connection, partition="host", table="Known")
    store_view_choices(desk.connection, partition="host", table="Known")
    assert desk.rows('SELECT count(*) FROM "Known"') == desk.rows(
        'SELECT count(*) FROM "IngestItems"'
    )
    store_view_choices(desk.connection, partition="host", table="Other")
    assert desk.rows("SELECT name FROM relation WHERE name IN ('Known', 'Other')") == [("Other",)]
    for name in ("record", "RECORD", "pages"):
        with pytest.raises(RegistryError, match="REGISTRY_TABLE_NAME"):
            store_view_choices(desk.connection, partition="host", table=name)
    store_view_choices(desk.connection, partition="host", table="IngestItems")
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
        ("s3://bucket/a", "bucket", "s3"),
    ],
)
def test_files_are_parted_by_container_or_scheme(source, by_host, by_scheme):
    assert url_partition_key(source) == by_host
    assert url_partition_key(source, "scheme") == by_scheme


@pytest.mark.covers("R0-74")
def test_a_content_group_is_host_and_path():
    group = url_content_group("https://a.example/x")

    assert len(group) == 26
    for same in ("http://A.example/x/", "https://a.example/x?page=2", "https://a.example:443/x#y"):
        assert url_content_group(same) == group
    for other in ("https://b.example/x", "https://a.example/y", "https://a.example/X"):
        assert url_content_group(other) != group

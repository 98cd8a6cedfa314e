"""Opening an index for searches alone: it is read, and nothing of it changes."""

from collections.abc import Callable

import pytest
from elasticsearch import Elasticsearch as Client

from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.sink import Opening
from smartcrawl.index.elasticsearch.versions import index_version
from smartcrawl.model.exceptions import SinkError
from tests.index.faulty import faulty, silent
from tests.index.shelf import entry, opened, page
from tests.servers import Elasticsearch


@pytest.fixture
def known(elasticsearch: Elasticsearch, prefix: str) -> Known:
    """What a registry knows of an index with one page, which has the word *words*."""
    with opened(elasticsearch.url, prefix) as sink:
        sink.write([entry(page("a", "words"))])
        sink.sealed(4)
        sink.refresh()
        return Known(sink.identity(), sealed=index_version(1, 4))


def requests(port: int, prefix: str, known: Known) -> list[str]:
    """The requests of an opening for searches, each by its method and path."""
    with faulty(port) as proxy, opened(proxy.url, prefix, known, Opening.SEARCHED) as sink:
        found = [f"{one.method} {one.path}" for one in proxy.asked]
        assert [hit.url for hit in sink.search("words")] == ["http://a.example/a"]
    return found


def test_elasticsearch_is_opened_for_a_search_by_two_requests_that_read(
    elasticsearch: Elasticsearch, prefix: str, known: Known
):
    asked = requests(elasticsearch.port, prefix, known)

    assert asked == [f"GET /{prefix}-meta/_doc/sink", f"GET /{prefix}"]


def _without_alias(client: Client, prefix: str) -> None:
    client.indices.delete_alias(index=f"{prefix}-pages-000001", name=prefix)


def _without_filter(client: Client, prefix: str) -> None:
    client.indices.put_alias(index=f"{prefix}-pages-000001", name=prefix)


@pytest.mark.parametrize("damage", [_without_alias, _without_filter])
def test_elasticsearch_alias_that_was_changed_is_repaired_by_a_search(
    elasticsearch: Elasticsearch,
    client: Client,
    prefix: str,
    known: Known,
    damage: Callable[[Client, str], None],
):
    damage(client, prefix)

    asked = requests(elasticsearch.port, prefix, known)
    assert "POST /_aliases" in asked
    asked = requests(elasticsearch.port, prefix, known)
    assert "POST /_aliases" not in asked


def _index_deleted(client: Client, prefix: str) -> None:
    client.indices.delete(index=f"{prefix}-pages-000001")


def _all_deleted(client: Client, prefix: str) -> None:
    client.indices.delete(index=[f"{prefix}-pages-000001", f"{prefix}-meta"])


def _index_replaced(client: Client, prefix: str) -> None:
    client.indices.delete(index=f"{prefix}-pages-000001")
    aliases = {f"{prefix}-write": {}, prefix: {"filter": {"bool": {"must_not": [
        {"term": {"deleted": True}}]}}}}  # fmt: skip
    client.indices.create(index=f"{prefix}-pages-000001", aliases=aliases)


def _of_another_version(client: Client, prefix: str) -> None:
    client.indices.put_mapping(index=f"{prefix}-pages-000001", meta={"version": 0})


def _taking_any_field(client: Client, prefix: str) -> None:
    client.indices.put_mapping(index=f"{prefix}-pages-000001", dynamic=True)


def _restored(client: Client, prefix: str) -> None:
    client.update(index=f"{prefix}-meta", id="sink", doc={"sealed": 0}, refresh=True)


def _foreign(client: Client, prefix: str) -> None:
    client.update(index=f"{prefix}-meta", id="sink", doc={"identity": "other"}, refresh=True)


@pytest.mark.parametrize(
    "damage",
    [
        _index_deleted,
        _all_deleted,
        _index_replaced,
        _of_another_version,
        _taking_any_field,
        _restored,
        _foreign,
    ],
)
def test_elasticsearch_index_that_is_not_the_known_one_is_refused_as_for_a_crawl(
    elasticsearch: Elasticsearch,
    client: Client,
    prefix: str,
    known: Known,
    damage: Callable[[Client, str], None],
):
    damage(client, prefix)

    said = []
    for how in (Opening.SEARCHED, Opening.KNOWN):
        with pytest.raises(SinkError) as caught:
            opened(elasticsearch.url, prefix, known, how).close()
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_elasticsearch_index_of_another_registry_is_not_searched_by_a_new_one(
    elasticsearch: Elasticsearch, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        sink.write([entry(page("a", "words"))])
        sink.refresh()

    with pytest.raises(SinkError, match="was written by another registry"):
        opened(elasticsearch.url, prefix, Known(), Opening.SEARCHED).close()


def test_elasticsearch_is_searched_while_the_next_index_is_built(
    elasticsearch: Elasticsearch, prefix: str, known: Known
):
    with opened(elasticsearch.url, prefix, known, Opening.ANEW) as building:
        building.write([entry(page("b", "words"))])
        building.refresh()

    with opened(elasticsearch.url, prefix, known, Opening.SEARCHED) as sink:
        assert [hit.url for hit in sink.search("words")] == ["http://a.example/a"]


def test_elasticsearch_that_does_not_answer_is_asked_once_for_a_search(
    elasticsearch: Elasticsearch, prefix: str, known: Known
):
    with faulty(elasticsearch.port) as proxy:
        proxy.will("/_doc/sink", silent)
        with pytest.raises(SinkError, match="no answer in time; start it, or correct"):
            opened(proxy.url, prefix, known, Opening.SEARCHED, timeout=0.5)
        assert len(proxy.asked) == 1

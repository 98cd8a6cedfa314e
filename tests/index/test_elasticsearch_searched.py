"""Opening an index for searches alone: it is read, and nothing of it changes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from elasticsearch import ApiError, TransportError
from elasticsearch import Elasticsearch as Client

from smartcrawl.index.elasticsearch import sink as sinks
from smartcrawl.index.elasticsearch.documents import FORMER_VERSION, WORDS, index_version
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.sink import Opening
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
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


def state_of(client: Client, prefix: str) -> tuple[object, object, object]:
    """All that an opening could change: indices with aliases, templates, and the metadata."""
    return (
        client.indices.get(index=f"{prefix}*", ignore_unavailable=True).body,
        client.options(ignore_status=404).indices.get_index_template(name=f"{prefix}*").body,
        client.options(ignore_status=404).get(index=f"{prefix}-meta", id="sink").body,
    )


@pytest.mark.parametrize("damage", [_without_alias, _without_filter])
def test_elasticsearch_alias_that_was_changed_is_left_to_the_next_crawl_by_a_search(
    elasticsearch: Elasticsearch,
    client: Client,
    prefix: str,
    known: Known,
    damage: Callable[[Client, str], None],
):
    damage(client, prefix)
    before = state_of(client, prefix)

    requests(elasticsearch.port, prefix, known)
    assert state_of(client, prefix) == before

    opened(elasticsearch.url, prefix, known).close()
    asked = requests(elasticsearch.port, prefix, known)
    assert asked == [f"GET /{prefix}-meta/_doc/sink", f"GET /{prefix}"]


def _no_write_alias(client: Client, prefix: str) -> None:
    client.indices.delete_alias(index=f"{prefix}-pages-000001", name=f"{prefix}-write")


def _no_write_alias_at_all(client: Client, prefix: str) -> None:
    _no_write_alias(client, prefix)
    _without_alias(client, prefix)


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
        _no_write_alias_at_all,
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
    before = state_of(client, prefix)

    said = []
    for how in (Opening.SEARCHED, Opening.KNOWN):
        with pytest.raises(SinkError) as caught:
            opened(elasticsearch.url, prefix, known, how).close()
        said.append(str(caught.value))
        assert state_of(client, prefix) == before
    assert said[0] == said[1]


@pytest.mark.parametrize("known_", [Known(), Known("another"), Known("another", sealed=7)])
def test_elasticsearch_index_that_does_not_exist_is_not_made_by_who_reads(
    elasticsearch: Elasticsearch, client: Client, prefix: str, known_: Known
):
    before = state_of(client, prefix)
    what = "no crawl has written to it so far" if known_.identity is None else "is not there any"

    with pytest.raises(SinkError, match=what):
        opened(elasticsearch.url, prefix, known_, Opening.SEARCHED)
    with opened(elasticsearch.url, prefix, known_, Opening.LOOKED) as sink:
        assert "is not there any more" in str(sink.mismatch(known_))
        assert list(sink.scan()) == []
        sink.refresh()
    assert state_of(client, prefix) == before


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_no_write_alias, "alias {}-write that is written is missing; scrapy audit --repair sets"),
        (_index_deleted, "was deleted, or recreated by another program; to rebuild it"),
        (_foreign, "(another identity)"),
        (_restored, "is older than this registry"),
    ],
)
def test_elasticsearch_index_that_is_compared_is_left_as_it_is(
    elasticsearch: Elasticsearch,
    client: Client,
    prefix: str,
    known: Known,
    damage: Callable[[Client, str], None],
    says: str,
):
    damage(client, prefix)
    before = state_of(client, prefix)

    with opened(elasticsearch.url, prefix, known, Opening.LOOKED) as sink:
        assert says.format(prefix) in str(sink.mismatch(known))
        assert len(list(sink.scan())) == (0 if damage is _index_deleted else 1)
        assert sink.search("words") if damage is _no_write_alias else True
    assert state_of(client, prefix) == before


def test_elasticsearch_write_alias_that_is_missing_is_called_missing_and_set_by_a_repair(
    elasticsearch: Elasticsearch, client: Client, prefix: str, known: Known
):
    _no_write_alias(client, prefix)

    with pytest.raises(SinkError, match=f"alias {prefix}-write that is written is missing"):
        opened(elasticsearch.url, prefix, known)
    with opened(elasticsearch.url, prefix, known, Opening.ANY) as sink:
        assert sink.identity() == known.identity, "it is the very index"
        assert sink.mismatch(known) is None
        assert len(list(sink.scan())) == 1
    opened(elasticsearch.url, prefix, known).close()


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


def answered(status: int) -> ApiError:
    meta: Any = SimpleNamespace(status=status)
    return ApiError("refused", meta, {})


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (None, None),
        (answered(404), None),
        (answered(500), None),
        (answered(403), "does not let this user read"),
        (TransportError("no answer"), "it is so"),
    ],
)
def test_an_index_that_cannot_be_read_is_checked_unless_the_reason_is_known(
    cause: Exception | None, said: str | None, monkeypatch: pytest.MonkeyPatch
):
    def read(_: object) -> None:
        raise SinkError("it is so") from cause

    monkeypatch.setattr(sinks.IndexMetaDocument, "read", read)
    target, absent = ElasticsearchTarget("http://127.0.0.1:9200", "docs"), cast("Any", None)
    if said is None:
        assert sinks._searched(absent, target, Known("i")) is None
    else:
        with pytest.raises(SinkError, match=said):
            sinks._searched(absent, target, Known("i"))


def test_an_index_of_the_former_fields_is_searched_until_it_is_written_anew(
    elasticsearch: Elasticsearch, client: Client, prefix: str, known: Known
):
    """It has no words that this program makes; a crawl refuses it with the remedy."""
    index = f"{prefix}-pages-000001"
    meta = client.indices.get(index=index)[index]["mappings"]["_meta"]
    client.indices.put_mapping(index=index, meta=meta | {"version": FORMER_VERSION})
    former = page("former", "Tabellen und Häuser", language="de").as_json()
    for chunk in former["chunks"]:
        for name in WORDS:
            chunk.pop(name, None)
    client.index(index=index, id=former["key"], document=former, refresh=True)

    with opened(elasticsearch.url, prefix, known, Opening.SEARCHED) as sink:
        for query in ("Häuser", "Tabelle", "Tabelle und Haus"):
            (hit,) = sink.search(query)
            assert hit.url == "http://a.example/former"
        assert "[Häuser]" in hit.snippet
        assert [hit.url for hit in sink.search('"Tabellen und Häuser" -words')] == [hit.url]
        assert sink.search("nothing") == []
    with pytest.raises(SinkError, match="was made for version 2 of the fields"):
        opened(elasticsearch.url, prefix, known).close()

"""Opening an index in an Elasticsearch: what is absent is made, what does not fit is refused."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
from elasticsearch import Elasticsearch as Client

from smartcrawl.index.elasticsearch.documents import MAPPING_VERSION, index_version
from smartcrawl.index.elasticsearch.meta import IndexMetadata, Known, index_meta_mismatch
from smartcrawl.index.elasticsearch.opening import Index, IndexNames, Indices
from smartcrawl.index.elasticsearch.sink import Opening
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
from tests import servers
from tests.certificates import certificate
from tests.index.faulty import PRODUCT, Answer, cut_off, faulty, silent, status
from tests.index.shelf import entry, opened, page
from tests.servers import Elasticsearch, nginx
from tests.servers.processes import free_port

# What is made


def test_elasticsearch_gets_template_index_and_aliases(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    opened(elasticsearch.url, prefix).close()

    name = f"{prefix}-pages-000001"
    made = client.indices.get(index=f"{prefix}*").body
    assert set(made) == {name, f"{prefix}-meta"}
    assert made[name]["mappings"]["dynamic"] == "false"
    assert made[name]["mappings"]["_meta"]["version"] == MAPPING_VERSION
    assert made[name]["aliases"] == {
        prefix: {"filter": {"bool": {"must_not": [{"term": {"deleted": True}}]}}},
        f"{prefix}-write": {"is_write_index": True},
    }
    (template,) = client.indices.get_index_template(name=f"{prefix}-pages")["index_templates"]
    assert template["index_template"]["index_patterns"] == [f"{prefix}-pages-*"]


def test_elasticsearch_keeps_its_identity_and_what_was_sealed(
    elasticsearch: Elasticsearch, prefix: str
):
    with opened(elasticsearch.url, prefix) as first:
        identity = first.identity()
        assert first.highest() == 0
        assert first.sealed(12) == index_version(1, 12)
        assert first.sealed(7) == index_version(1, 12)

    with opened(elasticsearch.url, prefix, Known(identity, sealed=index_version(1, 12))) as again:
        assert again.identity() == identity
        assert again.highest() == index_version(1, 12)


def test_elasticsearch_has_an_identity_for_each_prefix(elasticsearch: Elasticsearch, prefix: str):
    with opened(elasticsearch.url, prefix) as one, opened(elasticsearch.url, prefix + "x") as two:
        assert one.identity() != two.identity()


def test_elasticsearch_is_opened_by_several_at_once(elasticsearch: Elasticsearch, prefix: str):
    def identity(_: int) -> str:
        with opened(elasticsearch.url, prefix) as sink:
            return sink.identity()

    with ThreadPoolExecutor(4) as workers:
        assert len(set(workers.map(identity, range(4)))) == 1


def test_elasticsearch_that_another_opens_meanwhile_is_not_foreign(
    elasticsearch: Elasticsearch, prefix: str
):
    def meanwhile(asked, forward):
        answer = forward(asked)
        assert answer.status == 404
        opened(elasticsearch.url, prefix).close()
        return answer

    with faulty(elasticsearch.port) as proxy:
        proxy.will("/_doc/sink", meanwhile)
        opened(proxy.url, prefix).close()


def test_elasticsearch_keeps_the_highest_of_two_seals_at_once(
    elasticsearch: Elasticsearch, prefix: str
):
    with faulty(elasticsearch.port) as proxy, opened(proxy.url, prefix) as sink:

        def meanwhile(asked, forward):
            with opened(elasticsearch.url, prefix, Known(sink.identity())) as other:
                assert other.sealed(9) == index_version(1, 9)
            return forward(asked)

        asked = len(proxy.asked)
        proxy.will("/_doc/sink", lambda asked, forward: forward(asked), meanwhile)

        assert sink.sealed(8) == index_version(1, 9)
        assert sink.highest() == index_version(1, 9)
        puts = [one for one in proxy.asked[asked:] if one.method == "PUT"]
        assert len(puts) == 1  # what it was told then is higher than what it had to say


def test_elasticsearch_opening_that_was_interrupted_is_ended_by_the_next(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    """The identity is remembered first: an index without one is not ours."""
    with opened(elasticsearch.url, prefix) as sink:
        identity = sink.identity()
    memory = IndexMetadata(identity).as_json()
    client.index(index=f"{prefix}-meta", id="sink", document=memory, refresh=True)
    for left in (f"{prefix}-write", prefix):
        client.indices.delete_alias(index=f"{prefix}-pages-000001", name=left)

    with opened(elasticsearch.url, prefix, Known(identity)) as sink:
        sink.write([entry(page("a", "words"))])
        sink.refresh()
        assert len(sink.search("words")) == 1


def test_elasticsearch_alias_that_was_taken_away_is_there_again(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        identity = sink.identity()
        sink.write([entry(page("a", "words"))])
        sink.refresh()
        client.indices.delete_alias(index=f"{prefix}-pages-000001", name=prefix)
        with pytest.raises(SinkError, match="lacks what this registry wrote"):
            sink.search("words")

    with opened(elasticsearch.url, prefix, Known(identity)) as sink:
        assert len(sink.search("words")) == 1


# Who answers


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(cut_off, "cannot be reached: .*correct ELASTICSEARCH_URL", id="connection"),
        pytest.param(status(503), "is not ready: status 503.*try again", id="503"),
        pytest.param(status(429), "is not ready: status 429.*try again", id="429"),
        pytest.param(silent, "no answer in time", id="time-out"),
        pytest.param(status(401), "does not know this user: .*ELASTICSEARCH_API_KEY", id="401"),
        pytest.param(status(403), "does not let this user write", id="403"),
        pytest.param(
            lambda asked, forward: Answer(200, {"Content-Type": "application/json"}, b"{}"),
            "is not an Elasticsearch: correct ELASTICSEARCH_URL",
            id="no-elasticsearch",
        ),
        pytest.param(
            lambda asked, forward: Answer(200, PRODUCT, b'{"version": {"number": "7.17.29"}}'),
            "is an Elasticsearch 7.17.29: this program talks to 8.x and 9.x",
            id="version",
        ),
    ],
)
def test_elasticsearch_is_not_waited_for_at_the_start(
    elasticsearch: Elasticsearch, prefix: str, fault, said: str
):
    lines: list[str] = []
    with faulty(elasticsearch.port) as proxy:
        proxy.will("/", fault)
        with pytest.raises(SinkError, match=said):
            opened(proxy.url, prefix, on_wait=lines.append, timeout=1)

    assert lines == []
    assert elasticsearch.ask("GET", f"/{prefix}*") == {}


def test_elasticsearch_that_is_still_starting_is_waited_for_a_little(
    elasticsearch: Elasticsearch, prefix: str
):
    lines: list[str] = []
    with faulty(elasticsearch.port) as proxy:
        proxy.will("/_doc/sink", *[status(503, "no_shard_available_action_exception")] * 2)
        opened(proxy.url, prefix, on_wait=lines.append).close()
        assert len(lines) == 2

        proxy.will("/_doc/sink", *[status(503, "no_shard_available_action_exception")] * 9)
        with pytest.raises(SinkError, match="no_shard_available"):
            opened(proxy.url, prefix, wait=0.2)


def test_elasticsearch_without_tls_is_not_asked_with_it(elasticsearch: Elasticsearch, prefix: str):
    url = f"https://127.0.0.1:{elasticsearch.port}"

    said = refusal(url, prefix)

    assert said.startswith(f"{url} cannot be trusted, or talks without TLS: ")
    assert "http:// in ELASTICSEARCH_URL" in said
    assert "ELASTICSEARCH_CA_CERTS" in said


def test_elasticsearch_is_asked_with_tls_and_trusted_by_its_certificate(
    elasticsearch: Elasticsearch, prefix: str, tmp_path: Path
):
    """As behind a gateway, with a certificate of one's own; nginx takes the TLS off."""
    pem, port = certificate(tmp_path), free_port()
    behind = f"proxy_pass http://127.0.0.1:{elasticsearch.port};"
    tls = (
        f"listen 127.0.0.1:{port} ssl; ssl_certificate {pem}; ssl_certificate_key {pem};"
        f" location / {{ {behind} }}"
    )
    url = f"https://127.0.0.1:{port}"
    with nginx(tmp_path, access_log=False, extra=tls):
        said = refusal(url, prefix)
        with opened("", "", target=ElasticsearchTarget(url, prefix, ca_certs=pem)) as sink:
            sink.write([entry(page("a", "words"))])
            sink.refresh()
            assert len(sink.search("words")) == len(list(sink.scan())) == 1

    assert said.startswith(f"{url} cannot be trusted, or talks without TLS: ")
    assert "ELASTICSEARCH_CA_CERTS" in said


def test_elasticsearch_that_is_not_there_is_named_without_credentials():
    target = ElasticsearchTarget("http://127.0.0.1:9", user="me", password="secret")

    with pytest.raises(SinkError) as caught:
        opened("", "", target=target)

    assert str(caught.value) == (
        "http://127.0.0.1:9 cannot be reached: Connection refused;"
        " start it, or correct ELASTICSEARCH_URL"
    )


# Whose index it is


def refusal(*args: Any, **options: Any) -> str:
    with pytest.raises(SinkError) as caught:
        opened(*args, **options).close()
    return str(caught.value)


def test_elasticsearch_index_of_another_registry_is_refused(
    elasticsearch: Elasticsearch, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        sink.write([entry(page("a", "words"))])
        sink.refresh()

    said = refusal(elasticsearch.url, prefix)
    assert "was written by another registry: name another ELASTICSEARCH_INDEX_PREFIX" in said
    said = refusal(elasticsearch.url, prefix, Known("another"))
    assert "another identity" in said
    assert "scrapy audit --repair" in said


def test_elasticsearch_index_that_was_deleted_is_not_made_again(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    """An empty index must not be taken for one that holds every page."""
    with opened(elasticsearch.url, prefix) as sink:
        known = Known(sink.identity())
        client.indices.delete(index=f"{prefix}-pages-000001")
        with pytest.raises(SinkError, match="reindex --from-registry"):
            sink.write([entry(page("a", "words"))])
    assert set(client.indices.get(index=f"{prefix}*")) == {f"{prefix}-meta"}

    said = refusal(elasticsearch.url, prefix, known)
    assert (
        "was deleted, or recreated by another program; to rebuild it from the registry: scrapy"
        in said
    )

    client.indices.create(
        index=f"{prefix}-pages-000001",
        aliases={f"{prefix}-write": {"is_write_index": True}},
    )
    said = refusal(elasticsearch.url, prefix, known)
    assert "was deleted, or recreated by another program" in said

    client.indices.delete(index=f"{prefix}-meta")
    assert f"has no {prefix}-meta" in refusal(elasticsearch.url, prefix, known)
    client.indices.delete(index=f"{prefix}-pages-000001")
    assert "is not there any more" in refusal(elasticsearch.url, prefix, known)


def test_elasticsearch_memory_that_was_deleted_ends_a_run(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        client.indices.delete(index=f"{prefix}-meta")
        with pytest.raises(SinkError, match="was deleted or replaced"):
            sink.sealed(3)
        with pytest.raises(SinkError, match="was deleted or replaced"):
            sink.highest()


V = index_version
FITTING = [
    ("nothing-written", IndexMetadata("i"), Known()),
    ("the-same", IndexMetadata("i", V(1, 5)), Known("i", 1, V(1, 5))),
    ("seal-not-told", IndexMetadata("i", V(1, 5)), Known("i", 1, V(1, 5), V(1, 9))),
    ("seal-not-answered", IndexMetadata("i", V(1, 9)), Known("i", 1, V(1, 5), V(1, 9))),
    ("new-epoch", IndexMetadata("i", V(1, 9)), Known("i", 2, V(1, 5))),
    ("opening-not-told", IndexMetadata("i", openings=2), Known("i", openings=3)),
    ("opening-told", IndexMetadata("i", openings=3), Known("i", openings=3)),
    ("opened-by-another-at-once", IndexMetadata("i", openings=1), Known()),
]
WRONG = [
    ("foreign", IndexMetadata("i", V(1, 5)), Known(), "another registry"),
    ("identity", IndexMetadata("i", V(1, 5)), Known("j", 1, V(1, 5)), "another identity"),
    (
        "index-restored",
        IndexMetadata("i", V(1, 4)),
        Known("i", 1, V(1, 5)),
        "is older than this registry",
    ),
    (
        "index-restored-before-epoch",
        IndexMetadata("i", V(1, 9)),
        Known("i", 2, V(2, 5)),
        "is older",
    ),
    (
        "registry-restored",
        IndexMetadata("i", V(1, 9)),
        Known("i", 1, V(1, 5)),
        "registry --new-epoch",
    ),
    (
        "registry-restored-behind-an-unsealed-run",
        IndexMetadata("i", V(1, 5), openings=4),
        Known("i", 1, V(1, 5), V(1, 5), openings=3),
        "restored from a backup that is older than a run",
    ),
    (
        "registry-of-an-old-epoch",
        IndexMetadata("i", V(2, 1)),
        Known("i", 1, V(1, 5)),
        "--new-epoch",
    ),
]


@pytest.mark.parametrize(
    ("memory", "known"), [row[1:] for row in FITTING], ids=[row[0] for row in FITTING]
)
def test_an_index_that_fits_its_registry_is_taken(memory: IndexMetadata, known: Known):
    assert index_meta_mismatch(memory, known) is None


@pytest.mark.parametrize(
    ("memory", "known", "said"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_an_index_that_does_not_fit_its_registry_is_refused(
    memory: IndexMetadata, known: Known, said: str
):
    assert said in (index_meta_mismatch(memory, known) or "")


def test_elasticsearch_of_a_restored_registry_is_refused_until_it_has_a_new_epoch(
    elasticsearch: Elasticsearch, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        identity = sink.identity()
        sink.sealed(20)

    said = refusal(elasticsearch.url, prefix, Known(identity, 1, index_version(1, 10)))
    assert "scrapy registry --new-epoch" in said
    with opened(elasticsearch.url, prefix, Known(identity, 2, index_version(1, 10))) as sink:
        assert sink.sealed(11) == index_version(2, 11)


# What it looks like


def test_elasticsearch_index_for_other_fields_is_refused(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        known = Known(sink.identity())
    meta = {"product": "smartcrawl", "version": MAPPING_VERSION + 1}
    client.indices.put_mapping(index=f"{prefix}-write", meta=meta)

    said = refusal(elasticsearch.url, prefix, known)

    assert f"was made for version {MAPPING_VERSION + 1} of the fields" in said
    assert "scrapy reindex --from-registry" in said


def test_elasticsearch_template_of_somebody_else_is_noticed(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    """One that comes first takes our analyzers and fields away."""
    client.indices.put_index_template(
        name=f"{prefix}-theirs",
        index_patterns=[f"{prefix}-*"],
        priority=900,
        template={"mappings": {"_meta": {"version": MAPPING_VERSION}}},
    )

    said = refusal(elasticsearch.url, prefix)

    assert "is not as this program made it: " in said
    assert "analysis is absent" in said
    assert "more; to rebuild it from the registry: scrapy reindex" in said


def test_elasticsearch_index_that_is_closed_to_writes_is_refused(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        known = Known(sink.identity())
        client.indices.put_settings(index=f"{prefix}-write", settings={"blocks.write": True})
        with pytest.raises(SinkError, match=r"does not let this user write.*take write blocks off"):
            sink.write([entry(page("a", "words"))])

    assert "has the block write" in refusal(elasticsearch.url, prefix, known)


@pytest.mark.parametrize("taken", ["", "-write"], ids=["searched", "written"])
def test_elasticsearch_index_where_an_alias_has_to_be_is_refused(
    elasticsearch: Elasticsearch, client: Client, prefix: str, taken: str
):
    client.indices.create(index=f"{prefix}{taken}")

    said = refusal(elasticsearch.url, prefix)

    assert f"has an index {prefix}{taken} that is not ours" in said
    assert "name another ELASTICSEARCH_INDEX_PREFIX" in said


# Another one


def test_elasticsearch_index_is_built_anew_beside_the_one_that_is_searched(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    old, new = page("old", "first words"), page("new", "second words")
    with opened(elasticsearch.url, prefix) as sink:
        known = Known(sink.identity())
        sink.write([entry(old, 5)])
        sink.refresh()

    with opened(elasticsearch.url, prefix, known, Opening.ANEW) as building:
        building.write([entry(new, 5)])
        building.refresh()
        assert [one.key for one in building.scan()] == [new.key]
        assert [hit.url for hit in building.search("words")] == [old.url]
    assert "the rebuild did not finish; to rebuild it" in refusal(elasticsearch.url, prefix, known)
    assert "the rebuild did not finish" in refusal(elasticsearch.url, prefix, known, Opening.ANY)

    with opened(elasticsearch.url, prefix, known, Opening.ANEW) as building:
        assert [one.key for one in building.scan()] == [new.key]  # it goes on with what it began
        identity, left = building.publish()
        assert left == []
        assert identity == building.identity() != known.identity
        assert [hit.url for hit in building.search("words")] == [new.url]
    pages = set(client.indices.get(index=f"{prefix}-pages-*"))
    assert pages == {f"{prefix}-pages-000002"}
    assert "another identity" in refusal(elasticsearch.url, prefix, known)
    opened(elasticsearch.url, prefix, Known(identity)).close()


ONE, TWO = "1111111111111111", "2222222222222222"  #: ids of registries


def registry_of(client: Client, name: str) -> str | None:
    """The registry that an index names as its own."""
    meta = client.indices.get(index=name)[name]["mappings"]["_meta"]
    return meta.get("registry")


def built_anew(url: str, prefix: str, known: Known) -> tuple[str, list[str]]:
    """The new identity of an index that a registry builds anew, and what it left alone."""
    with opened(url, prefix, known, Opening.ANEW) as building:
        return building.publish()


def test_elasticsearch_index_that_is_built_anew_deletes_only_those_of_its_registry(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    """The names of others begin alike: their backups, and those of a longer prefix."""
    with opened(elasticsearch.url, prefix, Known(registry=ONE)) as sink:
        known = Known(sink.identity(), registry=ONE)
    assert registry_of(client, f"{prefix}-pages-000001") == ONE
    others = [f"{prefix}-pages-{end}" for end in (
        "backup", "pages-000001", "meta", "1", "0000001", "000001-old", "000001x", "000003"
    )]  # fmt: skip
    for name in others:
        client.indices.create(index=name)

    _, left = built_anew(elasticsearch.url, prefix, known)

    exist = set(client.indices.get(index=f"{prefix}-pages-*"))
    assert exist == {*others, f"{prefix}-pages-000004"}
    assert left == [f"{prefix}-pages-000003"]
    assert set(client.indices.get(index=prefix)) == {f"{prefix}-pages-000004"}
    assert set(client.indices.get(index=f"{prefix}-write")) == {f"{prefix}-pages-000004"}


def test_elasticsearch_index_of_another_registry_outlives_being_replaced(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    with opened(elasticsearch.url, prefix, Known(registry=TWO)) as sink:
        sink.write([entry(page("theirs", "words"))])
        sink.refresh()
    with opened(elasticsearch.url, prefix, Known(registry=TWO), Opening.ANEW) as begun:
        begun.write([entry(page("begun", "words"))])

    identity, left = built_anew(elasticsearch.url, prefix, Known(registry=ONE))

    assert left == [f"{prefix}-pages-000001", f"{prefix}-pages-000002"]
    for alias in (prefix, f"{prefix}-write"):
        assert set(client.indices.get(index=alias)) == {f"{prefix}-pages-000003"}
    with opened(elasticsearch.url, prefix, Known(identity, registry=ONE)) as sink:
        assert list(sink.scan()) == []
    assert len(client.search(index=f"{prefix}-pages-000001")["hits"]["hits"]) == 1


@pytest.mark.parametrize("said", [None, TWO], ids=["of-a-former-version", "taken-over"])
@pytest.mark.parametrize("is_opened", [True, False])
def test_elasticsearch_index_that_a_registry_knows_is_adopted(
    elasticsearch: Elasticsearch, client: Client, prefix: str, said: str | None, is_opened: bool
):
    with opened(elasticsearch.url, prefix) as sink:
        known = Known(sink.identity(), registry=ONE)
    name = f"{prefix}-pages-000001"
    meta = client.indices.get(index=name)[name]["mappings"]["_meta"] | {"registry": said}
    if said is None:
        del meta["registry"]
    client.indices.put_mapping(index=name, meta=meta)

    if is_opened:
        opened(elasticsearch.url, prefix, known).close()
        assert registry_of(client, name) == ONE
        assert client.indices.get(index=name)[name]["mappings"]["_meta"] == meta | {"registry": ONE}
    _, left = built_anew(elasticsearch.url, prefix, known)

    assert left == []
    assert set(client.indices.get(index=f"{prefix}-pages-*")) == {f"{prefix}-pages-000002"}


def test_elasticsearch_index_of_another_name_is_never_adopted(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    """Somebody restored it under a name of theirs, and pointed our aliases at it."""
    with opened(elasticsearch.url, prefix, Known(registry=ONE)) as sink:
        known = Known(sink.identity(), registry=ONE)
    theirs, alias = f"{prefix}-pages-restored", {"alias": f"{prefix}-write"}
    client.indices.create(index=theirs)
    client.indices.update_aliases(actions=[
        {"remove": {"index": f"{prefix}-pages-000001", **alias}},
        {"add": {"index": theirs, **alias, "is_write_index": True}},
        {"add": {"index": theirs, "alias": prefix}},
    ])  # fmt: skip

    built_anew(elasticsearch.url, prefix, known)

    assert set(client.indices.get(index=f"{prefix}-pages-*")) == {
        theirs, f"{prefix}-pages-000002"
    }  # fmt: skip
    assert set(client.indices.get(index=prefix)) == {f"{prefix}-pages-000002"}


def test_elasticsearch_index_that_was_deleted_is_built_anew(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        known = Known(sink.identity())
    client.indices.delete(index=f"{prefix}-pages-000001")

    with opened(elasticsearch.url, prefix, known, Opening.ANEW) as building:
        building.write([entry(page("a", "words"))])
        building.refresh()
        building.publish()
        assert len(building.search("words")) == 1


def test_elasticsearch_index_of_whoever_is_opened_to_be_compared(
    elasticsearch: Elasticsearch, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        identity = sink.identity()
        sink.write([entry(page("a", "words"))])
        sink.sealed(30)
        sink.refresh()

    with opened(elasticsearch.url, prefix, Known("another"), Opening.ANY) as sink:
        assert sink.identity() == identity
        assert len(list(sink.scan())) == 1
        assert "another identity" in str(sink.mismatch(Known("another")))
        assert sink.mismatch(Known(identity, sealed=30 + (1 << 40))) is None
        assert sink.renew() == sink.identity() != identity
        assert "another identity" in str(sink.mismatch(Known(identity)))


def test_elasticsearch_index_that_was_deleted_is_another_one_for_whoever_compares(
    elasticsearch: Elasticsearch, client: Client, prefix: str
):
    with opened(elasticsearch.url, prefix) as sink:
        known = Known(sink.identity())
    client.indices.delete(index=f"{prefix}-pages-000001")

    with opened(elasticsearch.url, prefix, known, Opening.ANY) as sink:
        assert sink.identity() != known.identity
        assert list(sink.scan()) == []
        identity = sink.identity()
    with opened(elasticsearch.url, prefix, known, Opening.ANY) as sink:
        assert sink.identity() == identity, "it is the same one as when it was compared first"
    assert "scrapy audit --repair" in refusal(elasticsearch.url, prefix, known)


# Who may write


@pytest.fixture(scope="module")
def guarded() -> Iterator[Elasticsearch]:
    with servers.elasticsearch(password="correct-horse") as running:
        yield running


def granted(server: Elasticsearch, cluster: list[str], rights: list[str]) -> str:
    """An API key that may do so much with indices whose names begin with ours."""
    index = [{"names": ["ours*"], "privileges": rights}]
    body = {"name": "test", "role_descriptors": {"r": {"cluster": cluster, "index": index}}}
    with Client(server.url) as client:
        return str(client.security.create_api_key(**body)["encoded"])


@pytest.mark.long
def test_elasticsearch_with_security_is_written_by_whoever_has_the_rights(guarded: Elasticsearch):
    url = f"http://127.0.0.1:{guarded.port}"

    def said(target: ElasticsearchTarget) -> str:
        return refusal("", "", target=target)

    assert "does not know this user" in said(ElasticsearchTarget(url, "ours"))
    wrong = said(ElasticsearchTarget(url, "ours", user="stranger", password="wrong horse"))
    assert "does not know this user" in wrong
    assert "wrong horse" not in wrong
    assert "does not know this user" in said(
        ElasticsearchTarget(url, "ours", api_key="d3Jvbmc6a2V5")
    )

    reader = granted(guarded, ["monitor"], ["read"])
    assert (
        "does not let this user write: it lacks manage of ours, manage of ours-*,"
        " manage_index_templates of the cluster, write of ours, write of ours-*"
    ) in said(ElasticsearchTarget(url, "ours", api_key=reader))

    writer = granted(guarded, ["monitor", "manage_index_templates"], ["read", "write", "manage"])
    assert "lacks manage of theirs" in said(ElasticsearchTarget(url, "theirs", api_key=writer))
    with opened("", "", target=ElasticsearchTarget(url, "ours", api_key=writer)) as sink:
        identity = sink.identity()
        sink.write([entry(page("a", "words"))])
        sink.sealed(4)
        sink.refresh()
        assert len(sink.search("words")) == len(list(sink.scan())) == 1
    known = Known(identity, sealed=index_version(1, 4))
    basic = ElasticsearchTarget(url, "ours", user="elastic", password="correct-horse")
    opened("", "", known, target=basic).close()


@pytest.mark.long
def test_elasticsearch_with_security_is_searched_by_whoever_may_read(guarded: Elasticsearch):
    url = f"http://127.0.0.1:{guarded.port}"
    with opened("", "", target=ElasticsearchTarget(url, "ours-too", user="elastic",
                                                   password="correct-horse")) as sink:  # fmt: skip
        known = Known(sink.identity())
        sink.write([entry(page("a", "words"))])
        sink.refresh()
    key = granted(guarded, [], ["read", "view_index_metadata"])
    reader = ElasticsearchTarget(url, "ours-too", api_key=key)

    with opened("", "", known, Opening.SEARCHED, target=reader) as sink:
        assert [hit.url for hit in sink.search("words")] == ["http://a.example/a"]
    assert "does not let this user write" in refusal("", "", known, target=reader)


@pytest.mark.parametrize(
    ("made_by", "searched", "place"),
    [
        (None, True, 2),
        ("ours", True, 2),
        ("another", True, 3),
        ("ours", False, 3),
    ],
)
def test_an_interrupted_opening_is_ended_by_its_registry_and_by_no_other(
    made_by: str | None, searched: bool, place: int, monkeypatch: pytest.MonkeyPatch
):
    names, absent = IndexNames.of("docs"), cast("Any", None)
    indices = Indices(absent, names, "server", absent, registry="ours")
    exist = [Index(names.numbered(1), "a"), Index(names.numbered(2), "b", registry=made_by)]
    monkeypatch.setattr(indices, "exist", lambda: exist)

    assert indices._next(searched=searched) == names.numbered(place)

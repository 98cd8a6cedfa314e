"""`scrapy audit`: what was changed by hand is found exactly, and mended."""

import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from elasticsearch import Elasticsearch as Client
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.index import audit as registry_audit
from smartcrawl.index.audit import (
    AuditFindings,
    Entry,
    Finding,
    IndexComparison,
    Kind,
    pair_pages_with_index,
)
from smartcrawl.index.elasticsearch.bulk import Held
from smartcrawl.index.elasticsearch.documents import index_document_key
from smartcrawl.index.elasticsearch.faults import index_patience
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink
from smartcrawl.index.remote import index_facts_of_registry
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.registry.database.databases import Database, registry_database
from smartcrawl.terminal.bar import Meter
from tests import servers
from tests.crawls.commands import Crawl, path_of
from tests.site_server import Site, html

pytestmark = pytest.mark.long(but=2)

PAGES = 130


@pytest.fixture
def indexed(crawl: Crawl, elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str) -> Crawl:
    """A crawl whose index lies in an Elasticsearch."""
    crawl.environment |= {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
        "SINK_WAIT_SECONDS": "2",
    }
    return crawl


class Index:
    """The index, as somebody changes it by hand."""

    def __init__(self, server: servers.Elasticsearch, prefix: str) -> None:
        self.client = Client(server.url)
        self.name = f"{prefix}-pages-000001"
        self.meta = f"{prefix}-meta"

    def living(self) -> dict[str, str]:
        """Hashes of content by key, of all that is no tombstone."""
        return {
            key: told["contentHash"] for key, told in self.documents().items() if not told["gone"]
        }

    def documents(self) -> dict[str, dict[str, Any]]:
        self.client.indices.refresh(index=self.name)
        hits = self.client.search(index=self.name, size=1000, version=True)["hits"]["hits"]
        return {
            hit["_id"]: {
                "contentHash": hit["_source"].get("contentHash"),
                "gone": bool(hit["_source"].get("deleted")),
                "version": hit["_version"],
            }
            for hit in hits
        }

    def delete(self, *keys: str) -> None:
        for one in keys:
            self.client.delete(index=self.name, id=one)


@pytest.fixture
def index(elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str) -> Index:
    return Index(elasticsearch, elasticsearch_prefix)


@pytest.fixture
def shop(site: Site, indexed: Crawl) -> Site:
    """Four pages, crawled."""
    site.pages["/"] = html("Home", "/a", "/b", "/c", text="welcome home")
    for name in "abc":
        site.pages[f"/{name}"] = html(name, text=f"the words of {name}")
    indexed(site.url("/"))
    return site


def audit(crawl: Crawl, *options: str, expect: int) -> dict[str, Any]:
    result = crawl.run("audit", "--format", "json", *options, expect=expect)
    told: dict[str, Any] = json.loads(result.out)
    assert {kind: len(told[kind]) for kind in told["counts"]} == told["counts"]
    return told


def found(told: dict[str, Any]) -> dict[str, int]:
    return {kind: number for kind, number in told["counts"].items() if number}


def database(crawl: Crawl) -> Database:
    return registry_database(crawl.environment.get("REGISTRY_URL") or Path(crawl.registry))


def keys_of(crawl: Crawl) -> dict[int, str]:
    rows = crawl.rows(
        "SELECT r.no, o.name, r.id FROM record r JOIN source o ON o.no = r.source"
        " WHERE r.entry > 0 AND r.content IS NOT NULL ORDER BY r.id"
    )
    return {no: index_document_key(source, bytes(id_)) for no, source, id_ in rows}


def choose(crawl: Crawl, name: str, change: Callable[[int], int]) -> None:
    """Change what the registry knows of its index."""
    ((value,),) = crawl.rows(f"SELECT value FROM choice WHERE name = 'index {name}'")
    crawl.rows(f"UPDATE choice SET value = '{change(int(value))}' WHERE name = 'index {name}'")


@pytest.mark.long
def test_elasticsearch_audit_finds_what_was_deleted_by_hand_and_mends_it(site, indexed, index):
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(PAGES)), text="welcome home")
    for n in range(PAGES):
        site.pages[f"/{n}"] = html(f"Page {n}", text=f"words of the page number {n}")
    indexed(site.url("/"))
    told = audit(indexed, expect=0)
    assert told["agree"] is True
    assert (told["pages"], told["documents"]) == (PAGES + 1, PAGES + 1)
    assert "agree" in indexed.run("audit").out

    keys = keys_of(indexed)
    ((home,),) = indexed.rows(f"SELECT no FROM record WHERE url = '{site.url('/')}'")
    numbers = [no for no in keys if no != home]  # ids are hashes: it might be any of them
    lost, emptied, forgotten = numbers[5:105], numbers[:5] + numbers[105:110], numbers[110:120]
    index.delete(*(keys[no] for no in lost))
    listed = ", ".join(map(str, emptied))
    indexed.rows(f"UPDATE record SET entry = 0, content = NULL WHERE no IN ({listed})")
    listed = ", ".join(map(str, forgotten))
    indexed.rows(f"DELETE FROM record WHERE no IN ({listed})")
    indexed.rows(f"DELETE FROM state WHERE no IN ({listed})")

    told = audit(indexed, expect=3)
    assert found(told) == {"missing": 100, "surplus": 10, "linked": 10}
    assert {one["key"] for one in told["missing"]} == {keys[no] for no in lost}
    assert {one["no"] for one in told["missing"]} == set(lost)
    assert {one["key"] for one in told["surplus"]} == {keys[no] for no in emptied}
    assert sorted(one["no"] for one in told["surplus"]) == sorted(emptied)
    assert {one["key"] for one in told["linked"]} == {keys[no] for no in forgotten}
    shown = indexed.run("audit", expect=3)
    assert "100 missing documents" in shown.out
    assert "10 surplus documents" in shown.out
    assert "10 linked documents without a record" in shown.out
    assert sum(line.startswith("missing ") for line in shown.out.splitlines()) == 20
    assert "and 80 more" in shown.out
    assert "scrapy audit --repair" in shown.err
    assert len(index.living()) == PAGES + 1 - 100, "only to look changes nothing"

    site.clear()
    told = audit(indexed, "--repair", expect=3)
    assert found(told) == {"missing": 100, "surplus": 10, "linked": 10}
    assert {kind: left for kind, left in told["left"].items() if left} == {"linked": 10}
    assert site.log == [], "nothing is downloaded"
    assert set(index.living()) == {keys[no] for no in keys if no not in emptied}
    indexed(site.url("/"))
    assert audit(indexed, expect=0)["agree"] is True
    assert indexed.hits("number") == sorted(
        path_of(url)
        for (url,) in indexed.rows("SELECT url FROM record WHERE entry > 0")
        if path_of(url) != "/"
    )


def test_elasticsearch_audit_mends_other_content_open_records_and_dead_letters(
    shop, indexed, index
):
    other, unwritten, dead, wrong = keys_of(indexed).items()
    tampered = {"contentHash": "sha256:00"}
    index.client.update(index=index.name, id=other[1], doc=tampered)
    indexed.rows(f"UPDATE state SET intent = 1 WHERE no = {unwritten[0]}")
    indexed.rows(f"INSERT INTO dead_letter VALUES ({dead[0]}, 1, 1, 'it is too long')")
    true = index.living()[wrong[1]]
    before = {key: told["version"] for key, told in index.documents().items()}

    told = audit(indexed, expect=3)
    assert found(told) == {"changed": 1, "open": 1, "dead": 1}
    assert (told["changed"][0]["no"], told["changed"][0]["detail"]) == (other[0], "sha256:00")
    assert told["open"][0]["no"] == unwritten[0]
    assert (told["dead"][0]["no"], told["dead"][0]["detail"]) == (dead[0], "it is too long")

    audit(indexed, "--repair", expect=0)
    assert audit(indexed, expect=0)["agree"] is True
    assert indexed.rows("SELECT count(*) FROM dead_letter") == [(0,)]
    after = index.documents()
    assert after[other[1]]["contentHash"] != "sha256:00"
    assert after[wrong[1]] == {"contentHash": true, "gone": False, "version": before[wrong[1]]}
    assert all(after[one]["version"] > before[one] for _, one in (other, unwritten, dead))


def test_elasticsearch_audit_of_one_source_leaves_the_others_alone(shop, indexed, index):
    with Site() as second:
        second.pages["/"] = html("Second", text="somewhere else")
        indexed(second.url("/"))
        keys = keys_of(indexed)
        index.delete(*keys.values())
        name = indexed.runs()[0]["source"]

        told = audit(indexed, "--source", name, "--repair", expect=0)

        assert found(told) == {"missing": 1}
        (living,) = index.living()
        assert living.startswith(f"{name}:")
        assert found(audit(indexed, expect=3)) == {"missing": len(keys) - 1}


def test_elasticsearch_audit_names_documents_of_sources_that_nobody_knows(shop, indexed, index):
    of = index_document_key("nobody", bytes(32))
    stray = {"key": of, "source": "nobody", "contentHash": "sha256:11"}
    index.client.index(index=index.name, id=of, document=stray)

    told = audit(indexed, "--repair", expect=0)

    assert [(one["source"], one["key"], one["no"]) for one in told["surplus"]] == [
        ("nobody", of, None)
    ]
    assert index.documents()[of]["gone"] is True
    assert audit(indexed, expect=0)["agree"] is True


def test_elasticsearch_audit_fills_an_index_that_was_deleted(shop, indexed, index):
    keys = keys_of(indexed)
    index.client.indices.delete(index=index.name)

    told = audit(indexed, expect=3)
    assert found(told) == {"missing": 4}
    assert "was deleted, or recreated by another program" in told["mismatch"]
    assert audit(indexed, "--repair", "--dry-run", expect=3) == told
    assert not index.client.indices.exists(index=index.name), "a plain audit changes nothing"
    result = indexed(shop.url("/"), expect=1)
    assert "was deleted, or" in result.err, "an empty index is not taken for a full one"
    name = indexed.runs()[0]["source"]
    refused = indexed.run("audit", "--repair", "--source", name, expect=1)
    assert "leave --source out" in refused.err
    assert index.living() == {}

    audit(indexed, "--repair", expect=0)
    assert set(index.living()) == set(keys.values())
    epoch = indexed.rows("SELECT value FROM choice WHERE name = 'index epoch'")
    assert epoch == [("2",)], "whoever else writes to it is older"
    assert audit(indexed, expect=0)["mismatch"] is None
    indexed(shop.url("/"))


def test_elasticsearch_audit_mends_an_index_of_a_backup(shop, indexed, index):
    for name in ("sealed", "sealing"):
        choose(indexed, name, lambda value: value + 5)
    index.delete(next(iter(keys_of(indexed).values())))
    assert "scrapy audit --repair" in indexed(shop.url("/"), expect=1).err

    told = audit(indexed, "--repair", expect=0)

    assert "is older than this registry" in told["mismatch"]
    assert found(told) == {"missing": 1}
    assert audit(indexed, expect=0)["mismatch"] is None
    indexed(shop.url("/"))


@pytest.mark.sqlite
def test_elasticsearch_audit_mends_an_index_by_a_registry_of_a_backup(shop, indexed, index):
    """As it says itself: ``audit`` named a repair that was refused."""
    backup = indexed.registry.read_bytes()
    shop.pages["/"] = html("Home", "/a", "/b", "/c", "/d", text="welcome home")
    shop.pages["/b"] = html("B", text="other words of b")
    shop.pages["/d"] = html("D", text="the words of d")
    indexed(shop.url("/"))
    for path in indexed.registry.parent.glob("registry.db-*"):
        path.unlink()
    indexed.registry.write_bytes(backup)
    refused = indexed(shop.url("/"), expect=1).err
    assert "scrapy audit --repair" in refused
    assert "scrapy registry --new-epoch" in refused

    seen = indexed.run("audit", expect=3)
    assert "is newer than this registry" in seen.out
    assert seen.err.rstrip().endswith("audit --repair")
    written = audit(indexed, "--repair", expect=0)

    assert found(written) == {"surplus": 1, "changed": 2}
    assert len(index.living()) == 4
    assert indexed.hits('"other words"') == []
    assert audit(indexed, expect=0)["mismatch"] is None
    indexed(shop.url("/"))
    assert indexed.hits('"other words"') == ["/b"]
    assert indexed.hits('"words of d"') == ["/d"]
    assert audit(indexed, expect=0)["agree"] is True


def test_elasticsearch_audit_by_a_registry_of_a_backup_removes_no_more_than_the_guard_lets(
    shop, indexed, index
):
    for name in ("sealed", "sealing"):
        choose(indexed, name, lambda value: value - 1)
    indexed.rows("UPDATE record SET entry = 0, content = NULL WHERE url NOT LIKE '%/a'")
    indexed.environment["SWEEP_MIN_COUNT"] = "1"
    before = index.documents()

    for options in (["--dry-run"], []):
        result = indexed.run("audit", "--repair", *options, expect=3)
        assert "is newer than this registry, which was restored from a backup" in result.err
        assert "3 of the 4 pages in it are unknown here" in result.err
        assert "scrapy audit --repair --max 3" in result.err
        assert index.documents() == before
    audit(indexed, "--repair", "--max", "3", expect=0)

    assert len(index.living()) == 1
    assert audit(indexed, expect=0)["agree"] is True


def test_elasticsearch_audit_finds_numbers_that_were_not_given_out(shop, indexed, index):
    """What the registry writes later has to win, though the content is the same today."""
    of, number = next((one, no) for no, one in keys_of(indexed).items())
    told = index.client.get(index=index.name, id=of)
    index.client.index(
        index=index.name,
        id=of,
        document=told["_source"],
        version=told["_version"] + 1_000,
        version_type="external",
    )
    ahead = audit(indexed, expect=3)
    assert found(ahead) == {}
    assert "this registry never used" in ahead["mismatch"]

    audit(indexed, "--repair", expect=0)
    assert audit(indexed, expect=0)["agree"] is True
    ((url,),) = indexed.rows(f"SELECT url FROM record WHERE no = {number}")
    shop.pages[path_of(url)] = html("Anew", "/a", "/b", "/c", text="an entirely new sentence")
    indexed(shop.url("/"))
    assert indexed.hits('"entirely new"') == [path_of(url)]
    assert audit(indexed, expect=0)["agree"] is True


@pytest.mark.sqlite
def test_elasticsearch_audit_takes_over_an_index_of_others_only_when_told(
    shop, indexed, index, elasticsearch, tmp_path
):
    told = dict(indexed.environment), indexed.data_dir, indexed.registry
    theirs = indexed.environment["ELASTICSEARCH_INDEX_PREFIX"]
    with elasticsearch.prefix() as prefix, Site() as second:
        indexed.environment["ELASTICSEARCH_INDEX_PREFIX"] = prefix
        indexed.environment.pop("REGISTRY_URL", None)
        indexed.data_dir = tmp_path / "other"
        indexed.registry = indexed.data_dir / "registry.db"
        second.pages["/"] = html("Second", text="somewhere else")
        indexed(second.url("/"))
        indexed.environment["ELASTICSEARCH_INDEX_PREFIX"] = theirs
        before = index.documents()

        result = indexed.run("audit", "--repair", expect=3)
        assert "4 of the 4 pages in it are unknown here" in result.err
        assert "scrapy audit --repair --max 4" in result.err
        indexed.run("audit", "--repair", "--max", "3", expect=3)
        assert index.documents() == before

        taken = audit(indexed, "--repair", "--max", "4", expect=0)
        assert found(taken) == {"missing": 1, "surplus": 4}
        assert len(index.living()) == 1
        second.pages["/"] = html("Second", text="somewhere else, and changed")
        indexed(second.url("/"))
        assert indexed.hits("changed") == ["/"]
        assert audit(indexed, expect=0)["agree"] is True
    indexed.environment, indexed.data_dir, indexed.registry = told
    assert "another identity" in indexed(shop.url("/"), expect=1).err


REFUSING = """
from smartcrawl.index.elasticsearch import sink
entry = sink._entry
def refused(page, number):
    told = entry(page, number)
    if page.mark is not None and page.url.endswith("/a"):
        told.document["lastChanged"] = "never"
    return told
sink._entry = refused
"""


def test_elasticsearch_audit_says_what_could_not_be_mended(shop, indexed, index):
    index.delete(*keys_of(indexed).values())
    (indexed.folder / "sitecustomize.py").write_text(REFUSING)
    indexed.environment["PYTHONPATH"] = f"{indexed.folder}:."
    told = audit(indexed, "--repair", expect=3)
    del indexed.environment["PYTHONPATH"]

    assert found(told) == {"missing": 4}
    assert {kind: n for kind, n in told["left"].items() if n} == {
        "missing": 1, "open": 1, "dead": 1
    }  # fmt: skip
    assert len(index.living()) == 3
    audit(indexed, "--repair", expect=0)
    assert len(index.living()) == 4


def test_elasticsearch_audit_waits_for_no_run(shop, indexed, index):
    name = indexed.runs()[0]["source"]
    index.delete(next(iter(keys_of(indexed).values())))
    lease = database(indexed).take(name, "now")
    try:
        assert "is being crawled" in indexed.run("audit", expect=3).err
        indexed.run("audit", "--repair", expect=4)
    finally:
        lease.release()
    assert len(index.living()) == 3


def test_elasticsearch_audit_reads_the_registry_in_portions(shop, indexed, monkeypatch):
    numbers = [*keys_of(indexed)]
    indexed.rows("UPDATE state SET intent = 1")
    connection = database(indexed).connect(readonly=True)
    ((source, _),) = registry_audit.audited_sources(connection, [])
    for size in (1, 3, 4, 5):
        monkeypatch.setattr(registry_audit, "_PAGE", size)
        assert [e.no for e in registry_audit.audited_entries(connection, source)] == numbers
        told = registry_audit.audited_open_records(connection, source)
        assert [one.no for one in told] == sorted(numbers)
    connection.close()


@pytest.mark.embedded
def test_audit_of_the_index_beside_the_registry_has_nothing_to_compare(site, crawl):
    site.pages["/"] = html("Home", text="words")
    crawl(site.url("/"))

    assert "cannot differ" in crawl.run("audit").out
    told = json.loads(crawl.run("audit", "--repair", "--format", "json").out)
    assert told == {"index": "embedded", "agree": True}


@pytest.mark.embedded
def test_elasticsearch_audit_of_a_registry_that_wrote_to_none_is_refused(
    site, crawl, elasticsearch, elasticsearch_prefix
):
    site.pages["/"] = html("Home", text="words")
    crawl(site.url("/"))
    crawl.environment |= {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
    }
    for words in (["audit", "--repair"], ["search", "words"]):
        refused = crawl.run(*words, expect=1)
        assert refused.out == "", "not as if nothing were found"
        assert "to write them there, without a download: " in refused.err
        assert refused.err.endswith("scrapy reindex --from-registry\n")
    assert "to write them there" in crawl(site.url("/"), expect=1).err

    crawl.run("reindex", "--from-registry")

    assert crawl.hits("words") == ["/"]
    assert audit(crawl, "--repair", expect=0)["agree"] is True
    crawl(site.url("/"))
    assert crawl.hits("words") == ["/"]


def test_audit_of_elasticsearch_says_how_far_it_is_when_it_takes_long(capsys):
    seconds = iter((100, 100, 101.9, 102, 103.9, 104.5))
    ticker = Meter("audit", every=2, clock=lambda: next(seconds))
    told = []
    for number in range(999, 1_004):
        ticker.report("compared", number)
        told.append(capsys.readouterr().err)
    assert told == [
        "", "", "audit: 1,001 pages compared\n", "", "audit: 1,003 pages compared\n"
    ]  # fmt: skip


def test_elasticsearch_audit_counts_every_key_for_its_progress(shop, indexed, index):
    keys = [*keys_of(indexed).values()]
    index.delete(*keys[:2])
    counted: list[tuple[str, int]] = []
    connection = database(indexed).connect(readonly=True)
    told = indexed.environment
    target = ElasticsearchTarget(told["ELASTICSEARCH_URL"], told["ELASTICSEARCH_INDEX_PREFIX"])
    with ElasticsearchSink.open(
        target, index_facts_of_registry(connection), patience=index_patience(2, target.url)
    ) as sink:
        comparison = IndexComparison(connection, sink, lambda *tick: counted.append(tick))
        with comparison.compare([]) as findings:
            assert findings.counts[Kind.MISSING] == 2
    connection.close()
    assert counted == [("compared", number) for number in range(1, len(keys) + 1)]


def entry(number: int) -> Entry:
    return Entry(number, number.to_bytes(32), "", b"")


def held(of: str) -> Held:
    return Held(of, 1, "", deleted=False, version=1, epoch=0)


KEYS = st.sets(st.integers(0, 30))


@given(KEYS, KEYS, st.sampled_from(["", "0", "z", "é"]))
def test_audit_of_elasticsearch_merges_as_sets_do(left, right, stray):
    """Keys of nobody's form lie anywhere between."""
    keys = {index_document_key("docs", n.to_bytes(32)) for n in right} | (
        {f"docs:{stray}"} if stray else set()
    )
    documents = [held(one) for one in sorted(keys, key=str.encode)]

    told = list(pair_pages_with_index("docs", (entry(n) for n in sorted(left)), iter(documents)))

    pages = {index_document_key("docs", n.to_bytes(32)): n for n in left}
    assert [one for one, _, _ in told] == sorted(keys | pages.keys(), key=str.encode)
    for one, page, document in told:
        assert (page is not None, document is not None) == (one in pages, one in keys)
        assert page is None or page.no == pages[one]
        assert document is None or document.key == one


def test_audit_of_elasticsearch_needs_no_more_memory_for_more_pages():
    def peak(count: int) -> int:
        tracemalloc.start()
        with AuditFindings() as findings:
            for of, _, _ in pair_pages_with_index("docs", map(entry, range(count)), iter(())):
                findings.add(Kind.MISSING, Finding(of, "docs", "https://docs.example.com/", 1))
            assert sum(1 for _ in findings.of(Kind.MISSING)) == findings.total() == count
        told = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return told

    few = peak(1_000)
    assert peak(10_000) < few + 100_000

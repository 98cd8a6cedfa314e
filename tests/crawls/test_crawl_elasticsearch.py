"""Crawls whose pages are searched in an Elasticsearch: written before the registry, never lost."""

import json
import os
import signal
import socket
from typing import Any

import pytest

from smartcrawl.index.elasticsearch import documents
from tests import servers
from tests.crawls import indexes
from tests.crawls.commands import Crawl, wait_until
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=2)

LONG = "Every word of this sentence is here to make the text long enough to be a clone. " * 4


@pytest.fixture
def indexed(crawl: Crawl, elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str) -> Crawl:
    """A crawl whose index lies in an Elasticsearch."""
    crawl.environment |= {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
        "SINK_WAIT_SECONDS": "2",
    }
    return crawl


@pytest.fixture
def pages(indexed: Crawl) -> "Documents":
    return Documents(indexed)


class Documents:
    """What the index holds, tombstones too, whatever the registry says."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    def __call__(self) -> dict[str, str]:
        """The texts by path; "gone" for tombstones."""
        ids = {record["id"]: path for path, record in self._crawl.pages().items()}
        found = {}
        for hit in self._hits():
            told = hit["_source"]
            key = hit["_id"].rpartition(":")[2]
            path = next(
                path
                for path, record in self._crawl.pages().items()
                if self.key(record["url"]) == key
            )
            found[path] = "gone" if told.get("deleted") else " ".join(indexes.texts(told))
        assert len(ids) >= len(found)
        return found

    def key(self, url: str) -> str:
        """The hash by which the index knows an address."""
        rows = self._crawl.rows(f"SELECT lower(hex(id)) FROM record WHERE url = '{url}'")
        return str(rows[0][0])

    def versions(self) -> set[int]:
        return {hit["_version"] for hit in self._hits()}

    def _hits(self) -> list[dict[str, Any]]:
        return indexes.hits(self._crawl.environment)


def open_records(crawl: Crawl) -> int:
    return int(crawl.rows("SELECT count(*) FROM state WHERE intent > 0")[0][0])


@pytest.fixture
def shop(site: Site, indexed: Crawl) -> Site:
    site.pages["/"] = html("Home", "/a", "/b", "/copy", text="welcome home")
    site.pages["/a"] = html("A", text=f"the apple. {LONG}")
    site.pages["/copy"] = html("A", text=f"the apple. {LONG}")
    site.pages["/b"] = html("B", text="some words of b")
    indexed(site.url("/"))
    return site


@pytest.mark.covers("R0-02", "R0-33", "R0-61")
def test_elasticsearch_documents_are_those_that_the_registry_and_the_hits_name(shop, indexed):
    records = indexed.pages()
    # Where /copy was answered before /a, it was indexed first, and has a tombstone now.
    documents = (hit for hit in indexes.hits(indexed.environment) if "id" in hit["_source"])
    stored = {hit["_id"]: hit["_source"]["id"] for hit in documents}

    for path in ("/", "/a", "/b"):
        assert stored[records[path]["lastIndexedDocId"]] == records[path]["id"]
    assert records["/copy"]["lastIndexedDocId"] == records["/a"]["lastIndexedDocId"]
    (hit,) = json.loads(indexed.run("search", "apple", "--format", "json").out)
    assert (hit["id"], hit["documentId"]) == (
        records["/a"]["id"], records["/a"]["lastIndexedDocId"],
    )  # fmt: skip


@pytest.mark.covers("M-44", "M-46")
def test_elasticsearch_holds_one_document_a_page_and_none_of_a_clone(shop, indexed, pages):
    assert {path for path, text in pages().items() if text != "gone"} == {"/", "/a", "/b"}
    assert indexed.hits("apple") == ["/a"]
    assert indexed.outcomes()["/copy"] == "clone"
    assert open_records(indexed) == 0
    assert indexed.counts_add_up()


def test_elasticsearch_is_not_written_by_a_refresh_without_changes(shop, indexed, pages):
    before = pages.versions()

    result = indexed(shop.url("/"))

    assert "Nothing changed" in result.out
    assert pages.versions() == before


def test_elasticsearch_follows_changes_clones_and_removals(shop, indexed, pages):
    shop.pages["/b"] = html("B", text="other words of b")
    shop.pages["/a"] = Page("gone", status=410)
    shop.pages["/"] = html("Home", "/a", "/b", "/copy", "/new", text="welcome home")
    shop.pages["/new"] = html("New", text="a newcomer")
    indexed(shop.url("/"), lost_threshold=1)

    assert pages()["/a"] == "gone"
    assert indexed.hits("apple") == ["/copy"], "its clone took its place"
    assert indexed.hits('"other words"') == ["/b"]
    assert indexed.hits('"some words"') == []
    assert indexed.hits("newcomer") == ["/new"]
    assert open_records(indexed) == 0

    indexed.run("undo", "2")
    shop.pages["/a"] = html("A", text=f"the apple. {LONG}")
    indexed(shop.url("/"))
    assert len(indexed.hits("apple")) == 1
    assert open_records(indexed) == 0


def test_elasticsearch_tombstones_are_deleted_by_the_first_run_a_day_later(shop, indexed, pages):
    shop.pages["/a"] = shop.pages["/b"] = shop.pages["/copy"] = Page("gone", status=410)
    indexed.environment["SWEEP_MAX_RATIO"] = "1"  # most of the shop goes
    indexed(shop.url("/"), lost_threshold=1)
    assert (pages()["/a"], pages()["/b"]) == ("gone", "gone")
    indexed(shop.url("/"))
    assert (pages()["/a"], pages()["/b"]) == ("gone", "gone"), "they are young"

    buried = {hit["_id"]: hit for hit in indexes.hits(indexed.environment)}
    (key,) = [key for key in buried if key.endswith(pages.key(shop.url("/a")))]
    (young,) = [key for key in buried if key.endswith(pages.key(shop.url("/b")))]
    indexes.age(indexed.environment, buried[key], 86_400 + 1)  # the runs may share a second
    indexes.age(indexed.environment, buried[young], 86_400 - 3_600)
    result = indexed(shop.url("/"))

    # Where /copy was answered before /a, it has a tombstone of the first run.
    assert set(pages()) - {"/copy"} == {"/", "/b"}
    assert "1 old tombstone" in result.err
    assert open_records(indexed) == 0


PURGE_FAILS = """
from smartcrawl.model.exceptions import SinkError
from smartcrawl.index.elasticsearch import sink
def fails(self, before):
    raise SinkError("the index does not answer")
sink.ElasticsearchSink.purge_tombstones = fails
"""


def test_elasticsearch_that_cannot_delete_tombstones_costs_no_run(shop, indexed, pages):
    shop.pages["/b"] = html("B", text="other words of b")
    (indexed.folder / "sitecustomize.py").write_text(PURGE_FAILS)
    indexed.environment["PYTHONPATH"] = f"{indexed.folder}:."

    result = indexed(shop.url("/"))

    assert "stay in the index until the next run: the index does not answer" in result.err
    assert indexed.runs()[-1]["complete"]
    assert indexed.hits('"other words"') == ["/b"]


def test_elasticsearch_shows_a_lost_page_as_lost_without_being_written(shop, indexed, pages):
    before = pages.versions()
    shop.pages["/b"] = Page("not found", status=404)

    indexed(shop.url("/"))

    (hit,) = indexed.search('"words of b"')
    assert hit["lost"] is True
    assert pages.versions() == before


def test_elasticsearch_that_is_down_ends_the_run_and_nothing_is_claimed(
    shop, indexed, pages, elasticsearch
):
    shop.pages["/b"] = html("B", text="other words of b")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # without listen(): connections are refused
        indexed.environment["ELASTICSEARCH_URL"] = f"http://127.0.0.1:{closed.getsockname()[1]}"
        result = indexed(shop.url("/"), expect=1)
    assert "ELASTICSEARCH_URL" in result.err or "does not answer" in result.err
    assert len(indexed.runs()) == 1, "a run that cannot be written is not begun"

    indexed.environment["ELASTICSEARCH_URL"] = elasticsearch.url
    indexed(shop.url("/"))
    assert indexed.hits('"other words"') == ["/b"]
    assert open_records(indexed) == 0


KILL_AFTER_WRITE = """
import os, signal
from smartcrawl.index.elasticsearch import sink
write = sink.ElasticsearchPages.write
def writing(self, told, number, now):
    found = write(self, told, number, now)
    if any(b"other" in repr(page.chunks).encode() for page in told):
        os.kill(os.getpid(), signal.SIGKILL)
    return found
sink.ElasticsearchPages.write = writing
"""


def test_elasticsearch_and_registry_agree_after_a_kill_between_both(shop, indexed, pages):
    """The index has what the registry does not know yet: the next run begins by mending it."""
    shop.pages["/b"] = html("B", text="other words of b")
    (indexed.folder / "sitecustomize.py").write_text(KILL_AFTER_WRITE)
    indexed.environment["PYTHONPATH"] = f"{indexed.folder}:."
    indexed(shop.url("/"), expect=-9)
    del indexed.environment["PYTHONPATH"]
    assert open_records(indexed) == 1
    assert "other words" in pages()["/b"]

    indexed.bury()
    indexed(shop.url("/"), max_pages=1, expect=None)
    assert open_records(indexed) == 0
    assert "some words" in pages()["/b"], "what the registry holds"

    indexed(shop.url("/"))
    assert indexed.hits('"other words"') == ["/b"]
    assert open_records(indexed) == 0


REFUSING = """
from smartcrawl.index.elasticsearch import sink
entry = sink._entry
def refused(page, number):
    told = entry(page, number)
    if page.mark is not None and "other" in str(told.document):
        told.document["lastChanged"] = "never"
    return told
sink._entry = refused
"""


def test_elasticsearch_that_refuses_a_page_keeps_the_old_one(shop, indexed, pages):
    shop.pages["/b"] = html("B", text="other words of b")
    (indexed.folder / "sitecustomize.py").write_text(REFUSING)
    indexed.environment["PYTHONPATH"] = f"{indexed.folder}:."
    indexed(shop.url("/"))

    record = indexed.pages()["/b"]
    assert record["lastOutcome"] == "failed"
    assert "the index does not take it" in record["errorMessage"]
    assert indexed.hits('"some words"') == ["/b"]
    assert indexed.rows("SELECT count(*) FROM dead_letter") == [(1,)]
    dead = indexed.run("registry", "--dead", "--format", "jsonl").out.splitlines()
    assert [json.loads(line)["url"] for line in dead] == [shop.url("/b")]

    del indexed.environment["PYTHONPATH"]
    indexed(shop.url("/"))
    assert indexed.hits('"other words"') == ["/b"]
    assert indexed.rows("SELECT count(*) FROM dead_letter") == [(0,)]
    assert open_records(indexed) == 0


@pytest.mark.sqlite
def test_elasticsearch_of_another_registry_is_refused(shop, indexed, tmp_path):
    own = indexed.data_dir
    indexed.data_dir = tmp_path / "other"
    indexed.registry = indexed.data_dir / "registry.db"
    result = indexed(shop.url("/"), expect=1)
    assert "another registry" in result.err

    indexed.data_dir, indexed.registry = own, own / "registry.db"
    del indexed.environment["ELASTICSEARCH_URL"]
    result = indexed(shop.url("/"), expect=1)
    assert "ELASTICSEARCH_URL is empty" in result.err


def test_elasticsearch_that_is_not_the_registrys_is_not_searched_and_stays_as_it_is(
    shop, indexed, elasticsearch
):
    """A search said that nothing was found, and made indices."""
    place = f"{indexed.environment['ELASTICSEARCH_INDEX_PREFIX']}-pages at {elasticsearch.url}"
    with elasticsearch.prefix() as other:
        own = dict(indexed.environment)
        indexed.environment["ELASTICSEARCH_INDEX_PREFIX"] = other
        found = indexed.run("search", "apple", expect=1)
        assert f"the index {other}-pages at {elasticsearch.url} is not there any more" in found.err
        assert f"; the index of this registry is {place}" in found.err
        assert elasticsearch.ask("GET", f"/{other}*") == {}
        indexed.environment = own
    del indexed.environment["ELASTICSEARCH_URL"]
    found = indexed.run("search", "apple", expect=1)
    assert "ELASTICSEARCH_URL is empty" in found.err
    assert f"; the index of this registry is {place}" in found.err


@pytest.mark.embedded
def test_elasticsearch_does_not_take_over_the_index_beside_a_registry(site, crawl, elasticsearch):
    site.pages["/"] = html("Home", text="words")
    crawl(site.url("/"))
    crawl.environment |= {"ELASTICSEARCH_URL": elasticsearch.url}

    result = crawl(site.url("/"), expect=1)

    beside = "the pages of this registry are in its embedded index, and not in the Elasticsearch"
    assert beside in result.err
    assert beside in crawl.run("search", "words", expect=1).err


def test_elasticsearch_key_of_a_page_is_its_source_and_hash():
    assert documents.index_document_key("docs", bytes(2)) == "docs:0000"


def test_elasticsearch_is_built_anew_out_of_the_registry_without_a_download(
    shop, indexed, pages, elasticsearch
):
    shop.clear()
    prefix = indexed.environment["ELASTICSEARCH_INDEX_PREFIX"]
    for name in list(elasticsearch.ask("GET", f"/{prefix}*?expand_wildcards=all")):
        elasticsearch.ask("DELETE", f"/{name}")
    refused = indexed(shop.url("/"), expect=1)
    assert "scrapy reindex --from-registry" in refused.err
    assert shop.log == [], "nothing is asked while the index is not what it was"

    others = [f"{prefix}-pages-000007", f"{prefix}-pages-backup"]
    for name in others:
        elasticsearch.ask("PUT", f"/{name}")

    told = indexed.run("reindex", "--from-registry")
    assert "3 pages, no download" in told.out
    assert f"kept, because this registry did not make them: {others[0]}; delete" in told.err
    again = json.loads(indexed.run("reindex", "--from-registry", "--format", "json").out)
    assert again == {"written": 3, "kept": others[:1]}
    exist = elasticsearch.ask("GET", f"/{prefix}-pages-*")
    assert set(exist) == {*others, f"{prefix}-pages-000009"}
    assert shop.log == []
    assert indexed.hits("apple") == ["/a"]
    assert set(pages()) == {"/", "/a", "/b"}

    shop.pages["/b"] = html("B", text="other words of b")
    indexed(shop.url("/"))
    assert indexed.hits('"other words"') == ["/b"]
    assert all(elasticsearch.ask("GET", f"/{name}/_count")["count"] == 0 for name in others)


@pytest.mark.sqlite
def test_elasticsearch_of_a_registry_that_was_restored_wants_a_new_epoch(shop, indexed, pages):
    backup = indexed.registry.read_bytes()
    shop.pages["/b"] = html("B", text="other words of b")
    indexed(shop.url("/"))
    indexed.registry.write_bytes(backup)
    refused = indexed(shop.url("/"), expect=1)
    assert "scrapy registry --new-epoch" in refused.err

    told = indexed.run("registry", "--new-epoch")
    assert "epoch 2 began: 3 pages" in told.out
    indexed(shop.url("/"))

    assert indexed.hits('"other words"') == ["/b"]
    assert open_records(indexed) == 0


@pytest.mark.sqlite
@pytest.mark.parametrize("remedy", ["audit --repair", "registry --new-epoch"])
def test_elasticsearch_of_a_registry_that_was_restored_behind_an_unsealed_run_is_recognised(
    shop, indexed, pages, remedy
):
    """Its writes were dropped, and the search kept the text of the run that was lost."""
    backup = indexed.registry.read_bytes()
    shop.pages["/b"] = html("B", text="other words of b")
    (indexed.folder / "sitecustomize.py").write_text(KILL_AFTER_WRITE)
    indexed.environment["PYTHONPATH"] = f"{indexed.folder}:."
    indexed(shop.url("/"), expect=-9)
    del indexed.environment["PYTHONPATH"]
    indexed.bury()
    for path in indexed.registry.parent.glob("registry.db-*"):
        path.unlink()
    indexed.registry.write_bytes(backup)
    shop.pages["/b"] = html("B", text="new words of b")

    refused = indexed(shop.url("/"), expect=1)

    for words in ("restored from a backup", "scrapy audit --repair", "scrapy registry --new-epoch"):
        assert words in refused.err
    assert "restored from a backup" in indexed.run("audit", "--format", "json", expect=3).out
    indexed.run(*remedy.split())
    indexed(shop.url("/"))
    assert indexed.hits('"new words"') == ["/b"]
    assert "new words" in pages()["/b"]
    assert json.loads(indexed.run("audit", "--format", "json").out)["agree"] is True


@pytest.mark.embedded
def test_elasticsearch_commands_say_when_there_is_none(site, crawl):
    site.pages["/"] = html("Home", text="words")
    crawl(site.url("/"))

    assert "ELASTICSEARCH_URL is empty" in crawl.run("reindex", "--from-registry", expect=2).err
    assert "ELASTICSEARCH_URL is empty" in crawl.run("registry", "--new-epoch", expect=2).err
    assert crawl.run("registry", "--dead", "--format", "jsonl").out == ""


@pytest.mark.long
def test_elasticsearch_that_goes_away_is_waited_for_and_a_stop_ends_the_wait(
    site, indexed, own_elasticsearch, own_elasticsearch_prefix
):
    names = [f"/p{n}" for n in range(120)]
    site.pages["/"] = html("Home", *names)
    site.pages |= {name: html(name, text=f"the text of {name}") for name in names}
    indexed.environment |= {
        "ELASTICSEARCH_URL": own_elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": own_elasticsearch_prefix,
        "SINK_WAIT_SECONDS": "600",
    }
    with indexed.start(site.url("/")) as running:
        wait_until(lambda: site.count("/p20"), "the crawl is under way")
        own_elasticsearch.kill()
        wait_until(lambda: site.count("/p60"), "it goes on")
        running.until_it_says("waiting for")
        os.kill(running.pid, signal.SIGINT)
        result = running.end()
    own_elasticsearch.start()
    assert "waiting for" in result.err
    assert result.status == 1, result

    indexed(site.url("/"), resume=1)
    assert len(indexed.hits('"the text"')) == 120
    assert open_records(indexed) == 0


@pytest.mark.long
@pytest.mark.covers("R0-16", "R0-100")
def test_a_document_has_the_spelling_that_answers(site: Site, indexed: Crawl, pages: Documents):
    site.pages |= {"/": html("Home", "/a/"), "/a/": html("A", text="words of a")}
    indexed(site.url("/"))
    del site.pages["/a/"]
    site.pages |= {"/": html("Home", "/a"), "/a": html("A", text="words of a")}

    indexed(site.url("/"))

    found = [hit["_source"]["url"] for hit in pages._hits()]
    assert sorted(found) == [site.url("/"), site.url("/a")]
    assert indexed.hits('"words of a"') == ["/a"]
    indexed.run("audit")

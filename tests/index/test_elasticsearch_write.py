"""Writing to an Elasticsearch: each entry by itself, under its number, whatever goes wrong."""

import json
import re
from collections.abc import Callable, Iterator
from itertools import permutations
from types import SimpleNamespace

import pytest

from smartcrawl.index.elasticsearch import bulk
from smartcrawl.index.elasticsearch.bulk import Entry, Fate, Written
from smartcrawl.index.elasticsearch.documents import ElasticsearchImage, index_version
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink
from smartcrawl.index.places import chunk_with_best_place
from smartcrawl.model.documents import Chunk, ChunkPlace
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.urls import url_item_id
from tests.index.faulty import (
    Fault,
    Faulty,
    at_most,
    cut_off,
    faulty,
    item,
    lost_answer,
    short,
    silent,
    status,
    under_pressure,
)
from tests.index.shelf import BASE, NOW, entries, entry, opened, page
from tests.servers import Elasticsearch

BOTH = ("done", "done")


@pytest.fixture(scope="module")
def desk(elasticsearch: Elasticsearch) -> Iterator[SimpleNamespace]:
    """One index, written through a proxy."""
    with elasticsearch.prefix() as prefix, faulty(elasticsearch.port) as proxy:
        lines: list[str] = []
        sink = opened(proxy.url, prefix, on_wait=lines.append, timeout=1)
        with sink:
            yield SimpleNamespace(
                sink=sink, proxy=proxy, prefix=prefix, lines=lines, server=elasticsearch
            )


@pytest.fixture
def sink(desk: SimpleNamespace) -> ElasticsearchSink:
    desk.lines.clear()
    desk.proxy.asked.clear()
    return desk.sink


@pytest.fixture
def proxy(desk: SimpleNamespace, sink: ElasticsearchSink) -> Faulty:
    return desk.proxy


def fates(answers: list[Written]) -> tuple[str, ...]:
    return tuple(answer.fate.value for answer in answers)


def source(desk: SimpleNamespace, key: str) -> dict[str, object]:
    return desk.server.ask("GET", f"/{desk.prefix}-write/_doc/{key}")["_source"]


# What is written


@pytest.mark.covers("M-44", "M-47")
def test_elasticsearch_holds_a_page_as_one_document(desk: SimpleNamespace, sink: ElasticsearchSink):
    """ATT-24: its id is the name of its source and a hash."""
    placed = page("whole", "first", "second", title="T", description="D", last_changed=NOW,
                mime_type="text/html", depth=2, canonical_url=BASE, content_group="g",
                published=NOW, author="Ada")  # fmt: skip

    assert fates(sink.write([entry(placed, 9)])) == ("done",)

    held = desk.server.ask("GET", f"/{desk.prefix}-write/_doc/{placed.key}")
    assert held["_version"] == index_version(1, 9)
    assert held["_source"] == {
        "key": f"docs:{placed.url_hash.hex()}", "id": url_item_id("url", placed.url_hash),
        "source": "docs", "url": BASE + "whole",
        "urlLength": len(BASE + "whole"), "urlHash": placed.url_hash.hex(), "canonicalUrl": BASE,
        "title": "T", "description": "D", "language": "en",
        "contentHash": f"sha256:{placed.content_hash.hex()}", "contentGroupId": "g",
        "lastChanged": "2025-06-15T15:06:40Z", "mimeType": "text/html", "depth": 2,
        "published": "2025-06-15T15:06:40Z", "author": "Ada",
        "chunks": [
            {"position": n, "level": 0, "types": ["text"], "repeated": 0,
             "hash": Chunk((), text).digest("T").hex(), "places": [],
             "title_en": "T", "headings_en": "", "text_en": text}
            for n, text in enumerate(("first", "second"))
        ],
    }  # fmt: skip


def test_elasticsearch_keeps_the_places_of_chunks(desk: SimpleNamespace, sink: ElasticsearchSink):
    places = (ChunkPlace(0, "größe"), ChunkPlace(4, "open", defines=True))
    placed = page("placed", chunks=[Chunk((), "one zebra", places=places), Chunk((), "two")])

    sink.write([entry(placed)])
    sink.refresh()

    (hit,) = sink.search("zebra")
    assert (hit.chunks[0].places, hit.chunks[0].found) == (places, ((4, 0),))
    assert chunk_with_best_place(hit.chunks[0], places).link(BASE) == f"{BASE}#open"


def test_elasticsearch_takes_a_removal_as_a_tombstone(
    desk: SimpleNamespace, sink: ElasticsearchSink
):
    gone = page("gone", "words that vanish")
    sink.write([entry(gone, 3)])

    assert fates(sink.write([Entry(gone.key, 4, None)])) == ("done",)
    sink.refresh()

    assert source(desk, gone.key) == {
        "key": gone.key, "source": "docs", "deleted": True, "deletedAt": "2025-06-15T15:06:40Z",
    }  # fmt: skip
    assert sink.search("vanish") == []
    assert fates(sink.write([entry(gone, 3)])) == ("stale",)
    assert fates(sink.write([entry(gone, 5)])) == ("done",)


def test_elasticsearch_takes_halves_of_characters_for_question_marks(
    desk: SimpleNamespace, sink: ElasticsearchSink
):
    odd = page("odd", "half \udcff character")

    assert fates(sink.write([entry(odd)])) == ("done",)
    assert source(desk, odd.key)["chunks"][0]["text_en"] == "half ? character"


@pytest.mark.parametrize("order", list(permutations((1, 2, 3))), ids=str)
def test_elasticsearch_keeps_the_latest_claim_in_every_order(
    desk: SimpleNamespace, sink: ElasticsearchSink, order: tuple[int, ...]
):
    place = f"order/{order}"
    offered = [entry(page(place, f"text {number}"), number) for number in order]
    offered = [one._replace(document=None) if one.number == 2 else one for one in offered]

    answers = [sink.write([one])[0] for one in offered]

    highest = 0
    for answer in answers:
        assert answer.fate is (Fate.DONE if answer.number > highest else Fate.STALE)
        highest = max(highest, answer.number)
    assert source(desk, offered[0].key)["chunks"][0]["text_en"] == "text 3"


def test_elasticsearch_takes_the_same_write_twice(sink: ElasticsearchSink):
    again = [entry(page("twice", "once more"), 5)]

    assert fates(sink.write(again) + sink.write(again)) == BOTH


def test_elasticsearch_answers_in_the_order_of_the_entries(sink: ElasticsearchSink):
    sink.write([entry(page("n/2", "newer"), 9)])
    pages = [page(f"n/{n}", "words") for n in range(5)]

    answers = sink.write(entries(pages, 8))

    assert [answer.key for answer in answers] == [one.key for one in pages]
    assert fates(answers) == ("done", "done", "stale", "done", "done")


def test_elasticsearch_takes_what_is_too_long_to_be_found_as_a_whole(
    desk: SimpleNamespace, sink: ElasticsearchSink
):
    long = page("long", "words", images=[ElasticsearchImage("image_1", "x" * 40_000)],
                mime_type="text/" + "x" * 40_000)  # fmt: skip

    assert fates(sink.write([entry(long)])) == ("done",)


# What is refused


def test_elasticsearch_rejects_one_page_and_takes_the_others(sink: ElasticsearchSink):
    good, bad = page("good", "words"), page("bad", "words")
    broken = Entry(bad.key, 7, bad.as_json() | {"depth": "deep"})

    answers = sink.write([entry(good), broken, entry(page("other", "words"))])

    assert fates(answers) == ("done", "rejected", "done")
    assert "depth" in answers[1].reason
    assert "deep" in answers[1].reason
    assert answers[0].reason == ""


def test_elasticsearch_of_a_later_epoch_ends_the_run(
    desk: SimpleNamespace, sink: ElasticsearchSink
):
    both = page("epoch", "words")
    known = Known(sink.identity(), epoch=2)
    with opened(desk.server.url, desk.prefix, known) as later:
        later.write([entry(both, 1)])

    with pytest.raises(SinkError, match=r"of epoch 2, and this registry is at epoch 1.*new-epoch"):
        sink.write([entry(both, 1_000)])


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (status(403, "security_exception", "no rights"), "does not let this user write.*no rights"),
        (status(401, "security_exception", "who?"), "does not know this user.*ELASTICSEARCH_API"),
        (item(0, 403, "cluster_block_exception"), "does not let this user write.*write blocks"),
        (status(404, "index_not_found_exception", "none"), "lacks what.*reindex --from-registry"),
        (item(0, 404, "index_not_found_exception"), "lacks what.*reindex --from-registry"),
        (status(400, "illegal_argument_exception", "odd"), "refused a request: status 400.*odd"),
    ],
    ids=["403", "401", "403-of-an-item", "404", "404-of-an-item", "400"],
)
def test_elasticsearch_that_refuses_for_good_is_not_asked_again(
    proxy: Faulty, sink: ElasticsearchSink, fault, said: str
):
    proxy.will("/_bulk", fault)

    with pytest.raises(SinkError, match=said):
        sink.write([entry(page("refused", "words"))])

    assert len(proxy.bulks()) == 1


# What passes


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(status(429), id="429"),
        pytest.param(status(503), id="503"),
        pytest.param(status(502), id="502"),
        pytest.param(cut_off, id="connection"),
        pytest.param(lost_answer, id="answer-lost"),
        pytest.param(silent, id="time-out"),
        pytest.param(short, id="answer-too-short"),
        pytest.param(item(1, 429), id="429-of-an-item"),
        pytest.param(item(1, 503, "unavailable_shards_exception"), id="503-of-an-item"),
    ],
)
def test_elasticsearch_that_is_away_is_asked_again(
    desk: SimpleNamespace, proxy: Faulty, sink: ElasticsearchSink, fault
):
    pages = [page(f"again/{n}", "words") for n in range(3)]
    number = len(desk.lines) + 1
    proxy.will("/_bulk", fault)

    assert fates(sink.write(entries(pages, number))) == ("done", "done", "done")

    assert len(proxy.bulks()) == 2
    assert desk.lines[0].startswith(f"waiting for {proxy.url} since 0 s: ")
    assert "the last one in 5 s" in desk.lines[0]


def test_elasticsearch_is_sent_again_only_what_it_did_not_take(
    proxy: Faulty, sink: ElasticsearchSink
):
    pages = [page(f"part/{n}", "words") for n in range(3)]
    proxy.will("/_bulk", item(1, 429))

    sink.write(entries(pages))

    first, second = proxy.bulks()
    assert len(first.body.splitlines()) == 6
    assert json.loads(second.body.splitlines()[0])["index"] == {
        "_id": pages[1].key, "version": index_version(1, 7), "version_type": "external_gte",
    }  # fmt: skip
    assert len(second.body.splitlines()) == 2


def test_elasticsearch_that_stays_away_ends_the_run_which_can_be_resumed(
    desk: SimpleNamespace, proxy: Faulty
):
    with opened(proxy.url, desk.prefix, Known(desk.sink.identity()), wait=0.07) as impatient:
        proxy.will("/_bulk", *[status(429)] * 3)
        with pytest.raises(SinkError, match=r"took nothing for \d+ s .*too much.*Nothing is lost"):
            impatient.write([entry(page("away", "words"))])

        proxy.fault("/_bulk")  # the third was not needed
        assert fates(impatient.write([entry(page("away", "words"))])) == ("done",)


def test_elasticsearch_wait_is_ended_by_what_is_told_of_it(desk: SimpleNamespace, proxy: Faulty):
    class StopError(Exception):
        pass

    def stop(line: str) -> None:
        raise StopError(line)

    known = Known(desk.sink.identity())
    with opened(proxy.url, desk.prefix, known, on_wait=stop) as stopped:
        proxy.will("/_bulk", status(503))
        with pytest.raises(StopError, match="status 503"):
            stopped.write([entry(page("stopped", "words"))])


@pytest.mark.long
def test_elasticsearch_that_is_killed_goes_on_with_what_it_held(
    own_elasticsearch: Elasticsearch, own_elasticsearch_prefix: str
):
    lines: list[str] = []

    def again(line: str) -> None:
        lines.append(line)
        own_elasticsearch.start()

    def some() -> Iterator[Entry]:
        for n in range(2_000):
            if n == 1_000:
                own_elasticsearch.kill()
            yield entry(page(f"killed/{n}", "words"))

    with opened(own_elasticsearch.url, own_elasticsearch_prefix, wait=120, on_wait=again) as sink:
        identity = sink.identity()
        assert set(fates(sink.write(some()))) == {"done"}
        sink.refresh()
        assert sum(1 for _ in sink.scan()) == 2_000
    # The first try meets the end of the connection it was kept on, or no server any more.
    assert re.search(r"Connection (?:refused|reset)", lines[0])
    opened(own_elasticsearch.url, own_elasticsearch_prefix, Known(identity)).close()


# How much is sent at once


def test_elasticsearch_requests_are_bounded_by_count(
    proxy: Faulty, sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "MOST_DOCUMENTS", 4)

    answers = sink.write(entries([page(f"count/{n}", "words") for n in range(10)]))

    assert fates(answers) == ("done",) * 10
    assert [len(one.body.splitlines()) // 2 for one in proxy.bulks()] == [4, 4, 2]


def test_elasticsearch_requests_are_bounded_by_bytes(
    proxy: Faulty, sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "MOST_BYTES", 9_000)
    texts = ["word " * 300] * 5 + ["word " * 2_000]

    sink.write(entries([page(f"bytes/{n}", text) for n, text in enumerate(texts)]))

    sizes = [(len(one.body.splitlines()) // 2, len(one.body)) for one in proxy.bulks()]
    assert [count for count, _ in sizes] == [2, 2, 1, 1]
    assert all(size <= 9_000 for _, size in sizes[:-1])
    assert sizes[-1][1] > 9_000


@pytest.mark.covers("R1-36")
def test_a_document_that_no_request_can_have_is_refused_and_holds_up_no_other(
    proxy: Faulty, sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch
):
    """Its vectors count: with text alone it would fit."""
    text, vectors = "word " * 300, {Chunk((), "word " * 300).digest(""): bytes(4 * 256)}
    pages = [page("edge/before", "x"), page("edge/large", text, vectors=vectors),
             page("edge/after", "y")]  # fmt: skip
    size = sum(map(len, sink._writer._action(entry(pages[1], 7)).lines)) + 2
    monkeypatch.setattr(bulk, "MOST_BYTES", 700)

    for longest in (size, size - 1):
        monkeypatch.setattr(bulk, "LONGEST", longest)
        answers = sink.write(entries(pages))
        assert fates(answers) == ("done", "done" if longest == size else "rejected", "done")

    assert answers[1].reason.startswith(
        f"its document with text and vectors is too large for the index ({size:,} bytes): raise"
        " CHUNK_SIZE, lower EMBEDDING_DIMENSION, leave out such large pages with DOWNLOAD_MAXSIZE"
    )
    assert not any(b"edge/large" in one.body for one in proxy.bulks()[-2:])


@pytest.mark.parametrize("limit", [at_most, under_pressure])
def test_elasticsearch_behind_a_limit_is_sent_less(
    limit: Callable[[int], Fault], desk: SimpleNamespace, proxy: Faulty, sink: ElasticsearchSink
):
    texts = ["word " * 300] * 4 + ["word " * 2_000]
    proxy.will("/_bulk", *[limit(5_000)] * 20)
    try:
        answers = sink.write(entries([page(f"less/{n}", text) for n, text in enumerate(texts)]))
    finally:
        while proxy.fault("/_bulk"):
            pass

    assert fates(answers) == ("done", "done", "done", "done", "rejected")
    assert "too large for the index (status 4" in answers[-1].reason
    assert not desk.lines  # nothing was waited for


def test_elasticsearch_is_written_while_entries_are_made(
    proxy: Faulty, sink: ElasticsearchSink, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "MOST_DOCUMENTS", 2)
    made = []

    def some():
        for n in range(6):
            made.append(n)
            yield entry(page(f"stream/{n}", "words"))

    answers = sink.written(some())
    next(answers)

    assert made == [0, 1, 2]
    assert len(proxy.bulks()) == 1
    assert len(list(answers)) == 5

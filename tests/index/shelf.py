"""Pages for tests of the index in an Elasticsearch."""

from collections.abc import Callable, Sequence
from hashlib import sha256

from smartcrawl.index.elasticsearch.bulk import Entry
from smartcrawl.index.elasticsearch.documents import PageDocument
from smartcrawl.index.elasticsearch.faults import index_patience
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink, Opening
from smartcrawl.model.documents import Chunk
from smartcrawl.model.option_groups import ElasticsearchTarget

BASE = "http://a.example/"
NOW = 1_750_000_000  #: 2025-06-15T15:06:40Z


def address(place: str) -> str:
    """The address of a place below BASE, or one that is whole."""
    return place if "://" in place else BASE + place


def page(
    place: str, *texts: str, title: str = "", language: str = "en", source: str = "docs", **more
) -> PageDocument:
    """The page of an address, a chunk for each text."""
    url = address(place)
    return PageDocument(
        source=source,
        url_hash=sha256(url.encode()).digest(),
        url=url,
        content_hash=sha256(" ".join(texts).encode("utf-8", "surrogatepass")).digest(),
        title=title,
        language=language,
        chunks=more.pop("chunks", [Chunk((), text) for text in texts]),
        **more,
    )


def entry(document: PageDocument, number: int = 7) -> Entry:
    """What writes a page."""
    return Entry(document.key, number, document.as_json())


def entries(documents: Sequence[PageDocument], number: int = 7) -> list[Entry]:
    return [entry(document, number) for document in documents]


def opened(
    url: str,
    prefix: str,
    known: Known | None = None,
    how: Opening = Opening.KNOWN,
    *,
    wait: float = 5,
    on_wait: Callable[[str], None] = lambda line: None,
    timeout: float = 60,
    target: ElasticsearchTarget | None = None,
) -> ElasticsearchSink:
    """The sink as a registry that has written nothing opens it, unless it knows more."""
    patience = index_patience(wait, url, first=0.05)
    patience.say = on_wait
    return ElasticsearchSink.open(
        target or ElasticsearchTarget(url, prefix),
        known or Known(),
        patience=patience,
        how=how,
        timeout=timeout,
        now=lambda: NOW,
    )

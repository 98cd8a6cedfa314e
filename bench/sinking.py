"""Write N documents into a fresh index, by our sink or by the client's bare helpers.bulk.

    bench/sinking.py ours|bare URL PREFIX N

The documents are the same, and so are index, versions and client. Prints one line of JSON.
"""

import json
import random
import resource
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from elasticsearch import Elasticsearch, helpers

from smartcrawl.index.elasticsearch.bulk import Entry, Fate
from smartcrawl.index.elasticsearch.documents import ElasticsearchImage, PageDocument, index_version
from smartcrawl.index.elasticsearch.faults import index_patience
from smartcrawl.index.elasticsearch.meta import Known
from smartcrawl.index.elasticsearch.sink import ElasticsearchSink
from smartcrawl.model.documents import Chunk
from smartcrawl.model.option_groups import ElasticsearchTarget

NUMBER = 7  #: claim number of all of them


def documents(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return documents of about 5 KB in four chunks, by their keys."""
    drawn = random.Random(7)
    words = [f"{drawn.choice('bcdfghklmnprst')}{drawn.randrange(36**3):x}" for _ in range(20_000)]
    found = []
    for number in range(count):
        url = f"https://docs.example/section-{number % 97}/page-{number}.html"
        chunks = [
            Chunk(("Manual", f"Part {place}"), " ".join(drawn.choices(words, k=180)))
            for place in range(4)
        ]
        page = PageDocument(
            source="docs",
            url_hash=sha256(url.encode()).digest(),
            url=url,
            content_hash=sha256(chunks[0].text.encode()).digest(),
            title=" ".join(drawn.choices(words, k=5)),
            description=" ".join(drawn.choices(words, k=15)),
            language=drawn.choice(("en", "en", "de", "")),
            last_changed=1_750_000_000 + number,
            mime_type="text/html",
            depth=number % 7,
            chunks=chunks,
            images=[ElasticsearchImage(f"image_{number}", f"{url}.png", alt="A picture of it")],
        )
        found.append((page.key, page.as_json()))
    return found


def main() -> None:
    """Write and measure."""
    how, url, prefix, count = *sys.argv[1:4], int(sys.argv[4])
    held = documents(count)
    target = ElasticsearchTarget(url, prefix)
    with ElasticsearchSink.open(target, Known(), patience=index_patience(60, target.url)) as sink:
        wall, cpu = time.perf_counter(), time.process_time()
        if how == "ours":
            entries = (Entry(key, NUMBER, document) for key, document in held)
            done = sum(answer.fate is Fate.DONE for answer in sink.written(entries))
        else:
            done = bare(url, f"{prefix}-write", held)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        sink.refresh()
        if done != count or sum(1 for _ in sink.scan()) != count:
            raise SystemExit(f"{done} of {count} documents were written")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "pages": count, "rss": most}))


def bare(url: str, index: str, held: list[tuple[str, dict[str, Any]]]) -> int:
    """Write documents as the client's own helper does, with its own defaults."""
    at = index_version(1, NUMBER)
    actions = (
        {"_index": index, "_id": key, "_source": document, "version": at,
         "version_type": "external_gte"}
        for key, document in held
    )  # fmt: skip
    with Elasticsearch(url) as client:
        return int(helpers.bulk(client, actions)[0])


if __name__ == "__main__":
    main()

"""Make vectors of N chunks, by our local embedder or by a bare loop over tokenizer and numpy.

    python bench/embedder.py ours|bare N

The chunks are the manual's own text, 1,300 characters each, all different. Loading is measured by
the clock and left out of the rest. Prints one line of JSON.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

CHARACTERS = 1_300  #: of a chunk
#: A way to embed texts; it returns how many got a vector.
Embedding = Callable[[list[str]], int]


def chunks(count: int) -> list[str]:
    """Return different texts of the size of a chunk."""
    pages = sorted([*ROOT.glob("docs/*.md"), *ROOT.glob("docs/adr/*.md")])
    text = " ".join(page.read_text(encoding="utf-8") for page in pages)
    starts = range(0, len(text) - CHARACTERS, CHARACTERS)
    return [
        f"{number} {text[starts[number % len(starts)] :][:CHARACTERS]}" for number in range(count)
    ]


def ours() -> Embedding:
    """Load our embedder."""
    from smartcrawl.index.embedding.local import LocalEmbedder  # noqa: PLC0415  # measured

    embedder = LocalEmbedder()
    return lambda texts: sum(isinstance(found, bytes) for found in embedder.embed(texts))


def bare() -> Embedding:
    """Load the same files without us."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    import numpy  # noqa: PLC0415  # measured
    from safetensors.numpy import load_file  # noqa: PLC0415  # measured
    from tokenizers import Tokenizer  # noqa: PLC0415  # measured

    folder = Path(find_spec("wordllama").submodule_search_locations[0])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    table = load_file(folder / "weights/l2_supercat_256.safetensors")["embedding.weight"]
    table = table.astype("float32")

    def embedded(texts: list[str]) -> int:
        found = []
        for text in texts:
            mean = table[tokenizer.encode(text).ids].mean(axis=0)
            found.append((mean / numpy.linalg.norm(mean)).tobytes())
        return len(found)

    return embedded


def main() -> None:
    """Load, make vectors, and measure."""
    how, count = sys.argv[1], int(sys.argv[2])
    began = time.perf_counter()
    embedded = {"ours": ours, "bare": bare}[how]()
    load = time.perf_counter() - began
    texts = chunks(count)
    wall, cpu = time.perf_counter(), time.process_time()
    done = embedded(texts)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if done != count:
        raise SystemExit(f"{done} of {count} chunks have a vector")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "pages": count, "rss": most, "load": load}))


if __name__ == "__main__":
    main()

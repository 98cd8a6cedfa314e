"""A bare client of a vector store: it uploads the files of a folder, and attaches each.

    python bench/giving.py URL STORE KEY CONCURRENCY FOLDER

It records nothing, so it cannot go on where it was ended. Prints one line of JSON as bench/ours.py
does.
"""

import json
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai


def main() -> None:
    """Give all files once and print the measurement."""
    cpu, wall = time.process_time(), time.perf_counter()
    url, store, key, most, folder = sys.argv[1:]
    client = openai.OpenAI(base_url=url, api_key=key)

    def give(path: Path) -> None:
        with path.open("rb") as file:
            made = client.files.create(file=(path.name, file), purpose="assistants")
        client.vector_stores.files.create(store, file_id=made.id)

    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    with ThreadPoolExecutor(int(most)) as threads:
        done = sum(1 for _ in threads.map(give, files))
    print(
        json.dumps(
            {
                "pages": done,
                "cpu": time.process_time() - cpu,
                "wall": time.perf_counter() - wall,
                "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()

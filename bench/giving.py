"""A bare client of a vector store: it uploads the files of a folder, and attaches each.

    python bench/giving.py URL STORE KEY CONCURRENCY FOLDER

It records nothing, so it cannot go on where it was ended. Prints one line of JSON as bench/ours.py
does.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.own_figures import OwnFigures


def main() -> None:
    """Give all files once and print the measurement."""
    figures = OwnFigures()
    url, store, key, most, folder = sys.argv[1:]
    client = openai.OpenAI(base_url=url, api_key=key)

    def give(path: Path) -> None:
        with path.open("rb") as file:
            made = client.files.create(file=(path.name, file), purpose="assistants")
        client.vector_stores.files.create(store, file_id=made.id)

    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    with ThreadPoolExecutor(int(most)) as threads:
        done = sum(1 for _ in threads.map(give, files))
    figures.print(done)


if __name__ == "__main__":
    main()

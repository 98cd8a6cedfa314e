"""A command that counts its extractions; imported before it begins (see tests.crawls.disk).

EXTRACTED    a file, which gets one line for each body that is read as a document: its URL
"""

import os
from pathlib import Path
from typing import Any

from smartcrawl.extract.documents import DocumentReader
from smartcrawl.model.pages import Visit
from tests.crawls.disk import arrange


def count(log: Path) -> None:
    """Write down each extraction of this process."""
    real = DocumentReader.read

    async def read(self: DocumentReader, visit: Visit, body: bytes, **more: Any) -> Any:
        with log.open("a", encoding="utf-8") as file:
            print(visit.page.url, file=file)
        return await real(self, visit, body, **more)

    DocumentReader.read = read  # type: ignore[method-assign, assignment]


if os.environ.get("ARRANGED_BY") == __name__:  # not where tests are only collected
    arrange()
    count(Path(os.environ["EXTRACTED"]))

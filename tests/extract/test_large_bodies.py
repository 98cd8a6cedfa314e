"""Bodies that are too large to be read in the process of the crawl."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.extract.documents import DocumentLimits, DocumentReader
from smartcrawl.extract.formats import FormatError, FormatFault


@pytest.mark.parametrize(
    ("media_type", "most"), [("text/html", 33_554_432), ("text/plain", 20_000_000)]
)
def test_a_page_or_text_of_a_folder_has_a_limit_of_its_own(media_type: str, most: int):
    """A file may have more bytes (MAX_FILE_SIZE) than this process can take at once."""
    selectors = SimpleNamespace(keep=(), drop=())
    configuration: Any = SimpleNamespace(selectors=selectors, routes=False)
    reader = DocumentReader(
        configuration,
        DocumentLimits(1, 512, 1, 0),
        unreadable=lambda *_: None,
        is_stopping=lambda: False,
    )
    visit: Any = SimpleNamespace(
        answer=SimpleNamespace(content_type=media_type),
        page=SimpleNamespace(record=SimpleNamespace(content=None)),
        url="file:///a/b",
        extracted_again=False,
    )

    with pytest.raises(FormatError, match=f"more than {most:,} bytes") as caught:
        asyncio.run(reader.read(visit, b"a" * (most + 1)))
    assert caught.value.kind is FormatFault.TOO_LARGE
    document, is_read = asyncio.run(reader.read(visit, b"a" * 1_000))
    assert (len(document.text), is_read) == (1_000, True)

"""The process that reads pages and makes their chunks and words, for a crawl (ADR 177).

Its arguments are those of ``extract.child``.
"""

from __future__ import annotations

# A long section is cut by it. Its first use comes after the process has confined itself, and by
# then no module can be opened.
import semantic_text_splitter  # noqa: F401

from smartcrawl.extract.child import extraction_child_main
from smartcrawl.index.page_parts import made_chunk_parts

if __name__ == "__main__":
    extraction_child_main(made_chunk_parts)

"""The process that reads pages and makes their chunks and words, for a crawl (ADR 177).

Its arguments are those of ``extract.child``.
"""

from __future__ import annotations

from smartcrawl.extract.child import extraction_child_main
from smartcrawl.index.page_parts import made_chunk_parts

if __name__ == "__main__":
    extraction_child_main(made_chunk_parts)

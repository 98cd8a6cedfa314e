"""Files with the bytes of a stored one: nothing is extracted from them again (ADR 69)."""

from __future__ import annotations

from smartcrawl.extract.documents import media_of_body
from smartcrawl.extract.links import document_links_depend_on_url
from smartcrawl.model.documents import Document
from smartcrawl.model.pages import NAMES_SIGNED, Visit
from smartcrawl.run.run import Run


def take_equal_bytes_in_run(run: Run, visit: Visit, body: bytes) -> Document | None:
    """Return the document of a stored page with the bytes of a visit; None: the body is to be read.

    Only pages that a listing names are looked up, once for each body that would be read. The stored
    page has the same type and configuration. The visit gets its hashes.
    """
    parsed = visit.parsed
    if not run.source.lists(visit.page.url):
        return None
    parsed.media = media_of_body(visit.answer.content_type, body, visit.url)
    if run.forces(visit.page):
        return None
    stored = run.stored_pages.extraction(visit)
    if stored is None or document_links_depend_on_url(stored.document, stored.url, visit.url):
        return None
    parsed.taken_over = True
    parsed.content_hash, parsed.text_hash = stored.content_hash, stored.text_hash
    parsed.sample = stored.sample
    parsed.names_signed = stored.signs & NAMES_SIGNED > 0
    return stored.document

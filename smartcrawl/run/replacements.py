"""Texts that came in place of others in one run: an error has one text for many pages."""

from __future__ import annotations

from collections import defaultdict
from hashlib import blake2b
from typing import Final

from smartcrawl.extract.hashes import compared_text
from smartcrawl.model.documents import Document
from smartcrawl.model.pages import Visit
from smartcrawl.rules.shield import MAX_REPEATED, is_repeated, text_without_ids
from smartcrawl.run.stored_pages import StoredPages

_TEXTS: Final = 10_000  #: texts in memory; the one that came longest ago is forgotten first
_PAGES: Final = 3  #: pages in memory that got one text, each in place of another one
_MANY: Final = 2  #: other pages; their text is repeated, however short it is
_DIGEST: Final = 8  #: bytes of the hash of a compared text


class Replacements:
    """The new texts of stored pages, and which pages got them, of one process and run.

    Source: ADR 93.
    """

    def __init__(self, pages: StoredPages, *, due: bool) -> None:
        """``due``: whether the run is one of those that see the source in slices."""
        self._pages = pages
        self._due = due
        #: Compared text -> the number of a page that got it -> the one that it had; no two had the
        #: same.
        self._known: dict[bytes, dict[int, bytes]] = {}
        #: Text -> the number of each page that got it lately -> whether since a complete run.
        self._lately: dict[bytes, dict[int, bool]] | None = None
        #: Compared text -> the numbers of the pages that changed lately and have it.
        self._held: dict[bytes, set[int]] | None = None

    def is_repeated(self, visit: Visit, document: Document, *, withheld: bool) -> bool:
        """Note the new text of a stored page; whether other pages got it in this run, too.

        Texts are compared as ``rules.shield.text_to_compare`` has them. Pages that had one text
        before count as one. A text that differs from the former one by ids and numbers only
        replaces nothing. ``withheld``: whether the last run found it so, too; then a page that got
        the text in that run counts.
        """
        page, text = visit.page, visit.parsed.text_hash
        if page.text_hash is None or text is None or text == page.text_hash:
            return False  # another part of the content changed
        compared = compared_text(document)
        key = _digest(compared)
        former = page.text_hash[:_DIGEST]
        if len(compared) <= MAX_REPEATED:  # else the document need not be read
            former = _digest(compared_text(self._pages.document(page)))
        if key == former:
            return False  # its headings changed
        known = self._known[key] = self._known.pop(key, {})  # the newest
        had = {had for number, had in known.items() if number != page.no and had != former}
        if len(known) < _PAGES and former not in known.values():
            known[page.no] = former
        if len(self._known) > _TEXTS:
            del self._known[next(iter(self._known))]
        others = len(had)
        if others < _MANY and (withheld or self._due):
            others = max(others, self._others_before(visit, key, withheld=withheld))
        return is_repeated(text_length=len(compared), others=others) and (
            text_without_ids(self._pages.document(page).text) != text_without_ids(document.text)
        )

    def is_shared(self, visit: Visit, document: Document) -> bool:
        """Whether another page was found with the new text of a visit, in this run or lately.

        Call ``is_repeated`` before.
        """
        whole, key = visit.parsed.text_hash or b"", _digest(compared_text(document))
        others = self._known.get(key, {}).keys() - {visit.page.no}
        return bool(others or (self._lately or {}).get(whole))

    def _others_before(self, visit: Visit, key: bytes, *, withheld: bool) -> int:
        """Return how many pages got the text of a visit in earlier runs, in place of another one.

        Where the last run withheld the page, any page that has the text by now speaks against it.
        Else those count that got it since the last complete run: the due crawls between two of
        them together are one look at the source.
        """
        if self._lately is None:
            self._lately = defaultdict(dict)
            for number, text, since in self._pages.last_changes():
                self._lately[text][number] = since
        text, former = visit.parsed.text_hash or b"", visit.page.text_hash
        found = self._lately.get(text, {})
        if withheld and (found or self._holders(key) - {visit.page.no}):
            return _MANY
        numbers = [number for number, since in found.items() if since and self._due]
        return sum(not self._pages.had_text(number, former) for number in numbers)

    def _holders(self, key: bytes) -> set[int]:
        """Return the numbers of the pages that changed lately and have a compared text by now."""
        if self._held is None:
            self._held = defaultdict(set)
            for number, document in self._pages.last_documents(2 * MAX_REPEATED):
                self._held[_digest(compared_text(document))].add(number)
        return self._held.get(key, set())


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()

"""Visits of sitemaps and feeds, whose entries are followed and which are never indexed."""

from __future__ import annotations

from typing import Final

from smartcrawl.extract import html
from smartcrawl.extract.sitemaps import (
    MAX_ENTRIES,
    SitemapError,
    SitemapFault,
    SitemapKind,
    is_llms_txt,
    read_llms_txt,
    read_sitemap,
)
from smartcrawl.model.documents import Document, Link
from smartcrawl.model.pages import BROUGHT, EMPTIED_AT, Visit
from smartcrawl.rules.absence import empties_sitemap
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.run.links import SITEMAP
from smartcrawl.run.run import Run

_FAULTS: Final = {
    SitemapFault.XML_FORBIDDEN: Fault.XML_FORBIDDEN,
    SitemapFault.TOO_LARGE: Fault.TOO_LARGE,
    SitemapFault.BROKEN: Fault.BROKEN_SITEMAP,
    SitemapFault.NOT_A_SITEMAP: Fault.NOT_A_SITEMAP,
}
_NOUNS: Final = {SitemapKind.LLMS_TXT: "an llms.txt"}


def take_sitemap_in_run(run: Run, visit: Visit, body: bytes) -> bool:
    """Read a sitemap or feed; return False if the body is a page after all.

    An llms.txt is one, too. A sitemap is never indexed. If it does not parse to its end, its visit
    changes nothing: the entries that were stored before stay in force.
    """
    answer, parsed = visit.answer, visit.parsed
    page = visit.page
    read = read_llms_txt if is_llms_txt(visit.url) else read_sitemap
    try:
        found = read(body, content_type=answer.content_type, url=visit.url)
    except SitemapError as error:
        if not page.kind:
            return False
        is_page = (
            error.kind is SitemapFault.NOT_A_SITEMAP
            and not is_llms_txt(page.url)  # a page in the place of what was only guessed
            and html.sniffed_media_type(answer.content_type, body) in html.HTML_TYPES
            and page.state.standing is not Standing.LINKS
            and page.no not in run.seeds.given
            and run.scope.allows(visit.url)
        )
        if is_page:
            visit.kind = 0
            run.extractions.configure(page, kind=0)
            return False
        visit.fail(_FAULTS[error.kind], str(error))
        return True
    if page.state.standing is not Standing.HELD:
        visit.kind = page.kind or page.plan.named or 1
    kind = SITEMAP if found.kind is SitemapKind.INDEX else "entry"
    links = {entry.url: Link(entry.url, entry.lastmod, kind, False) for entry in found.entries}
    before = run.stored_pages.links(page)
    if found.kind.is_feed:  # a feed is a window: pages that left it are not gone
        for link in before:
            if link.type == kind and len(links) < MAX_ENTRIES:
                links.setdefault(link.url, link)
    parsed.document = Document(content_type=html.sniffed_media_type(answer.content_type, body))
    parsed.text_hash = parsed.content_hash = parsed.body_hash
    visit.outcome = Outcome.NOT_ACCEPTABLE
    noun = "a feed" if found.kind.is_feed else _NOUNS.get(found.kind, "a sitemap")
    count = "1 address" if len(links) == 1 else f"{len(links):,} addresses"
    visit.error = f"not indexed: {noun} of {count}"
    if not found.kind.is_feed:
        parsed.brought = bool(links or before) or page.record.signs & BROUGHT > 0
        if not links and _stays_in_force(run, visit, len(before)):
            links = {link.url: link for link in before}
    run.links.follow(visit, links.values(), same_depth=True, cut=found.cut)
    if run.due_pages is not None:
        run.due_pages.notice(links.values(), before)
    return True


def _stays_in_force(run: Run, visit: Visit, stored: int) -> bool:
    """Whether the stored addresses of a sitemap that is empty now are followed all the same.

    The next request has no validators: a 304 would not say how often the sitemap was found empty.
    """
    since = visit.page.record.signs >> EMPTIED_AT
    found_so = run.stored_pages.complete_runs_since(since) if since else 0
    if run.forces(visit.page) or empties_sitemap(stored, found_so):
        return False
    visit.parsed.emptied = since or run.opened.no
    visit.answer.etag = visit.answer.last_modified = None
    visit.error = (
        f"not indexed: an empty sitemap; its {stored:,} stored addresses are still "
        "followed until a third complete run finds it empty"
    )
    return True

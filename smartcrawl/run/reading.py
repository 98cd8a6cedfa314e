"""Processing of answers: body, document, shield against bad answers, links (ADR 27)."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from smartcrawl.extract import html
from smartcrawl.extract.documents import (
    FORMAT_FAULTS,
    DocumentLimits,
    DocumentReader,
    media_of_body,
)
from smartcrawl.extract.formats import FormatError
from smartcrawl.extract.hashes import body_hash, compared_text, document_content_hash, text_hash
from smartcrawl.extract.links import (
    document_base_url,
    document_file_name,
    document_links_depend_on_url,
    document_page_url,
    refresh_target_at_once,
)
from smartcrawl.extract.sitemaps import (
    MAX_ENTRIES,
    SitemapError,
    SitemapFault,
    SitemapKind,
    is_llms_txt,
    looks_like_sitemap,
    read_llms_txt,
    read_sitemap,
)
from smartcrawl.model.documents import Document, Link
from smartcrawl.model.exceptions import (
    GivenUpError,
    RegistryError,
    SnapshotError,
    SnapshotStoreError,
    SourceError,
)
from smartcrawl.model.pages import BROUGHT, EMPTIED_AT, NAMES_SIGNED, Page, Visit
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import normalize_url, unsigned_url
from smartcrawl.registry.runs.run_results import UNREAD
from smartcrawl.rules.absence import empties_sitemap
from smartcrawl.rules.http import REFRESHED
from smartcrawl.rules.login import (
    WALL_OF_REDIRECTS,
    is_login_form,
    is_sign_in_page,
    says_sign_in,
)
from smartcrawl.rules.model import Action, Extraction, Fault, Mode, Outcome, Standing
from smartcrawl.rules.page_reading import READ_HERE, PageReading
from smartcrawl.rules.reindex import WAITS, Verdict, decide, decide_moved, waits_for_browser
from smartcrawl.rules.shield import (
    MAX_REPEATED,
    accepts_collapse,
    is_collapsed,
    is_repeated,
    text_without_ids,
)
from smartcrawl.run.answers import BLANK, NextRequest, damage_of_body
from smartcrawl.run.collapses import collapse_in_run
from smartcrawl.run.detours import Redirect
from smartcrawl.run.extractions import StoredPages
from smartcrawl.run.links import SITEMAP
from smartcrawl.run.run import Run
from smartcrawl.run.shortcomings import FAULTY
from smartcrawl.sources.scope import UNREAD_DOCUMENTS

logger = logging.getLogger(__name__)


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


NOINDEX: Final = "not indexed: noindex"
_REPEATED: Final = "other pages got the same text in this run"


class Reading:
    """Fills in the visits of a run from their answers, and offers the links that they lead to.

    The links of a new body are offered; other answers replay the stored links. Every visit passes
    here, failed requests included, so links are offered in this one place (R4-35).
    """

    def __init__(
        self,
        run: Run,
        *,
        is_soft_404: Callable[[Visit, Document], Awaitable[bool]],
        scope_moved: Callable[[], None],
        is_stopping: Callable[[], bool],
        pages: PageReading = READ_HERE,
    ) -> None:
        """Take the run and its surroundings.

        ``is_soft_404`` probes the host of a page. ``scope_moved`` is called when a redirect of
        a seed moves the scope. ``is_stopping`` ends the wait for an extraction process.
        ``pages``: how downloaded pages are read.
        """
        options = run.options
        self._run = run
        self._is_soft_404 = is_soft_404
        self._scope_moved = scope_moved
        self._documents = DocumentReader(
            run.configuration,
            DocumentLimits(
                processes=options.extract_processes,
                memory=options.extract_memory,
                cpu_seconds=options.extract_cpu_seconds,
                # A folder is no host that could take the time of others.
                seconds_per_host=(
                    0 if run.source.traits.is_listed else options.extract_seconds_per_host
                ),
                pages=pages,
            ),
            unreadable=run.stored_pages.unreadable,
            is_stopping=is_stopping,
            maker=lambda: run.site_lists.parts(is_elsewhere=options.elasticsearch is not None),
        )
        self._replacements = Replacements(run.stored_pages, due=run.opened.due)
        run.halt.when_dropped(self._documents.give_up)

    async def take(self, visit: Visit) -> RegistryError | SourceError | None:
        """Fill in the document, hashes, chunks and links of a visit.

        An unexpected error becomes the outcome of the visit. Returns the error if the
        registry cannot be read or written, or is damaged, or if the source would share pages with
        another one, else None.

        Raises:
            GivenUpError: the crawl ended before the document was read.
        """
        parsed = visit.parsed
        run = self._run
        run.turns.landed(visit.page)
        if run.choice is not None:
            run.choice.landed(visit.page)
        try:
            await self._fill_in(visit)
            if visit.respelled is None and not run.spellings.is_open(visit):
                run.links.decide_scope(visit)
        except GivenUpError:
            raise
        except (RegistryError, SourceError) as error:
            return error  # no fault of the page
        except Exception as error:
            damage = run.registry.database.damage(error)
            if damage is not None:
                return damage
            logger.exception("cannot process %s", visit.url)
            visit.fail(Fault.PROCESSING, f"processing failed: {type(error).__name__}: {error}")
            parsed.document, parsed.links, parsed.targets = None, None, b""
        if visit.respelled is not None or run.spellings.is_open(visit):
            return None
        if run.source.kind_of(visit.page.url).is_polite:
            run.trust.learn(visit)
        # A seed that collapsed leads on: its pages show whether the whole site collapsed.
        waits = visit.collapse is not None and not run.seeds.is_seed(visit.page.no)
        if _keeps_links(visit) and not (visit.again or waits):
            run.links.replay(visit.page)
        return None

    async def close(self) -> None:
        """End the extraction processes."""
        await self._documents.close()

    async def _fill_in(self, visit: Visit) -> None:
        answer = visit.answer
        if visit.outcome is Outcome.NOT_MODIFIED:
            await self._confirm(visit)
        elif visit.outcome is Outcome.REDIRECT and answer.location is not None:
            self._redirect(visit, answer.location)
        elif answer.body is not None:
            await self._read(visit, answer.body)

    async def _confirm(self, visit: Visit) -> None:
        """Process a 304, which confirms the body, but not that the page may still be indexed.

        The headers of the 304 may forbid it. A changed configuration may exclude the page, or
        require a new extraction of the stored body.
        """
        page = visit.page
        plan = page.plan
        if self._leads_on(visit, None):
            return
        noindex, _ = _header_directives(visit)
        if noindex:
            if page.state.standing is Standing.HELD:
                visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, NOINDEX
            elif page.record.canonical_no is not None:
                # The page is no longer an alias: the next request has no validators.
                visit.answer.etag = visit.answer.last_modified = None
        elif plan.extraction is Extraction.REFUSED:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, _not_indexed(plan.mode)
        elif plan.extraction is Extraction.AGAIN:
            await self._read_again(visit)

    async def _read_again(self, visit: Visit) -> None:
        """Extract the stored body of a page again, under the changed configuration (M-15)."""
        answer = visit.answer
        run, page = self._run, visit.page
        visit.extracted_again = True
        try:
            answer.body, answer.content_type = await run.stored_pages.body(page)
        except SnapshotStoreError as error:  # the store failed, not the snapshot
            visit.extracted_again = False
            run.extractions.unread(str(error))
            return
        except SnapshotError as error:
            visit.snapshot_error = str(error)
            return
        visit.outcome, answer.content_length = Outcome.CHANGED, page.record.content_length
        await self._read(visit, answer.body)

    def _redirect(self, visit: Visit, target: str) -> None:
        run, number = self._run, visit.page.no
        if run.links.may_follow(number, visit.redirects) and run.seeds.move(number, target):
            hosts = ", ".join(sorted(run.scope.hosts))
            logger.warning("the seed redirects to %s, so the scope is now %s", target, hosts)
            self._scope_moved()
        if not run.links.follow_redirect(visit, target):
            most = run.options.redirects.followed
            visit.fail(Fault.TOO_MANY_REDIRECTS, f"more than {most} redirects in a row")

    async def _read(self, visit: Visit, body: bytes) -> None:
        """Read a body as a sitemap or a document, unless it equals the stored body."""
        run, page = self._run, visit.page
        kind = run.source.kind_of(page.url)
        visit.parsed.body_hash = body_hash(body)
        if self._leads_on(visit, None):
            return
        noindex, nofollow = _header_directives(visit)
        as_sitemap = page.kind or page.plan.named or looks_like_sitemap(body)
        if as_sitemap and kind.follows_links and take_sitemap_in_run(run, visit, body):
            return
        if kind.is_shielded and (damage := damage_of_body(visit, body, forced=run.forces(page))):
            visit.fail(*damage)
        elif self._is_stored(visit) and not (run.forces(page) or noindex or nofollow):
            visit.outcome = Outcome.SAME
        else:
            await self._read_document(visit, body, noindex=noindex, nofollow=nofollow)

    def _leads_on(self, visit: Visit, document: Document | None) -> bool:
        """Whether a page leads to another address at once: it is judged as a temporary redirect.

        By its header ``Refresh``, or by its ``document``. One that reloads the page is followed
        with the first cookie that the visit got, and is the page itself otherwise.
        """
        run, answer = self._run, visit.answer
        if (answer.refresh if document is None else document.refresh) is None:
            return False
        kind, brings = run.source.kind_of(visit.page.url), (Outcome.CHANGED, Outcome.NOT_MODIFIED)
        if not kind.is_shielded or visit.outcome not in brings:
            return False
        here = document_page_url(visit.url)
        header = answer.refresh or ""
        target = (
            document.refresh
            if document
            else refresh_target_at_once(header, here, here, routes=run.source.has_hash_routes)
        )
        reloads = target == str(here)
        if target is None or (reloads and not _got_first_cookie(visit)):
            return False
        if visit.attempt is None:  # a stored body: nothing can be asked
            trackers = run.options.trackers
            if normalize_url(target, trackers) == normalize_url(visit.url, trackers):
                return False
            answer.location = target
        else:
            cookie = self._cookies_onward(visit, target, reloads=reloads)
            if reloads and cookie is None:
                answer.location = None
                return False
            if cookie is not None:
                visit.respelled = target, cookie
                if visit.attempt.away is visit:  # it counts unless the way leads back
                    _judge_as_redirect(visit, target)
                return True
        if answer.location is not None:
            _judge_as_redirect(visit, target)
            if not run.spellings.is_open(visit):
                self._redirect(visit, target)
        else:
            _drop_body(visit)
        return True

    def _cookies_onward(self, visit: Visit, target: str, *, reloads: bool = False) -> str | None:
        """Return the Cookie to ask the target of a refresh with; None: it is not asked."""
        answer = visit.answer
        got = answer.set_cookies, answer.cookie
        redirect = Redirect(visit.url, target, REFRESHED, *got, reloads=reloads)
        return self._run.detours.next_cookies(visit, redirect, int(time.time()))

    def on_the_way(self, visit: Visit) -> Visit:
        """Return the visit that counts after a page to which a redirect of its visit led.

        Where that page leads on at once, its visit says with which request it goes on.
        """
        answer, here = visit.answer, document_base_url(visit.url)
        header, body = answer.refresh or "", answer.body or b""
        target = refresh_target_at_once(header, here, here)
        media = html.sniffed_media_type(answer.content_type, body, visit.url)
        if target is None and media in html.HTML_TYPES:
            kind = answer.content_type
            page = html.parse_html(
                body, content_type=kind, url=visit.url, links=False, detect=False
            )
            target = page.refresh
        cookie = self._cookies_onward(visit, target) if target is not None else None
        _drop_body(visit)
        if target is None or cookie is None:
            return self._run.detours.counting(visit)
        visit.respelled = target, cookie
        return visit

    def _is_stored(self, visit: Visit) -> bool:
        """Whether reading this body would only reproduce the stored page and its links."""
        page = visit.page
        record = page.record
        return (
            visit.parsed.body_hash == record.body_hash
            and page.state.standing is Standing.HELD
            and record.configuration == page.plan.wanted
            and not record.signs & NAMES_SIGNED  # stored links lack their signatures
            and (bool(record.targets) or not self._run.source.kind_of(page.url).follows_links)
            # An earlier nofollow header may have emptied them.
            and visit.url == page.url  # relative links resolve against this URL
            and visit.outcome is Outcome.CHANGED
        )

    async def _read_document(
        self, visit: Visit, body: bytes, *, noindex: bool, nofollow: bool
    ) -> None:
        """Read and judge a document, and follow its links."""
        parsed = visit.parsed
        run, page = self._run, visit.page
        alike = run.stored_pages.is_read_alike(visit)
        keeps = alike and run.links.keeps_links(page) and not nofollow
        known = None if run.forces(page) else run.stored_pages.language(page)
        stored = take_equal_bytes_in_run(run, visit, body)
        try:
            document, readable = (
                (stored, True)
                if stored
                else await self._documents.read(
                    visit, body, links=not keeps, language=known, forced=run.forces(page)
                )
            )
        except FormatError as error:
            visit.fail(FORMAT_FAULTS[error.kind], f"cannot be read: {error}")
            return
        self._count_faulty(visit, document)
        if self._leads_on(visit, document):
            return
        parsed.document = document
        if document.canonical is not None:
            parsed.document = replace(document, canonical=unsigned_url(document.canonical))
        if stored is None:
            self._hash(visit, document)
        if not readable:
            visit.outcome = Outcome.NOT_ACCEPTABLE
            type_ = f"this version does not read {document.content_type}"
            self._count_unread(visit)
            visit.error = f"not indexed: {type_ if body.strip(BLANK) else 'it is empty'}"
            # No snapshot: no other configuration can read this body either.
            visit.answer.body = None
        else:
            await self._judge(visit, parsed.document, noindex=noindex)
            if self._run.spellings.is_open(visit):
                parsed.document = None
                return
        if visit.http_status == Fault.COLLAPSED:
            return  # links are followed once the collapse is accepted
        if keeps:
            parsed.canonical_no = page.record.canonical_no
        else:
            self._follow(visit, document, nofollow=nofollow)
        if visit.outcome in (Outcome.SOFT_404, Outcome.UNPROCESSABLE):
            parsed.links = None
        elif visit.outcome is Outcome.CHANGED and run.links.stands_aside(visit):
            visit.outcome = Outcome.ALIAS

    def _count_faulty(self, visit: Visit, document: Document) -> None:
        if document.faulty:
            self._run.shortcomings.count(FAULTY, visit.page.url)

    def _count_unread(self, visit: Visit) -> None:
        ending = document_file_name(visit.url).rpartition(".")[2].lower()
        if ending in UNREAD_DOCUMENTS:
            self._run.shortcomings.count(f"{UNREAD} .{ending}", visit.page.url)

    def _hash(self, visit: Visit, document: Document) -> None:
        parsed = visit.parsed
        if self._run.options.content_hash_basis == "bytes":
            parsed.content_hash = parsed.text_hash = parsed.body_hash
        else:
            parsed.text_hash = text_hash(document)
            parsed.content_hash = document_content_hash(document)
        parsed.sample = html.language_sample_digest(document)

    async def _judge(self, visit: Visit, document: Document, *, noindex: bool) -> None:
        """Decide whether to index a document, and whether it differs from the stored page."""
        page = visit.page
        if noindex or document.noindex:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, NOINDEX
            if not document.noindex:  # a 304 may omit the header: send no validators next
                visit.answer.etag = visit.answer.last_modified = None
        elif page.plan.mode is not Mode.INDEX:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, _not_indexed(page.plan.mode)
        elif visit.outcome is Outcome.CHANGED:
            await self._judge_change(visit, document)

    async def _judge_change(self, visit: Visit, document: Document) -> None:
        """Compare a document with the stored page, which error and login pages must not replace."""
        parsed = visit.parsed
        run, page = self._run, visit.page
        held = page.state.standing is Standing.HELD
        parsed.reread = held and _is_read_otherwise(visit)
        if held and (
            visit.extracted_again
            or parsed.reread
            or parsed.content_hash == run.stored_pages.content_hash(page)
        ):
            visit.outcome = Outcome.SAME
            parsed.recanonical = (
                run.options.force_on_canonical  # R0-86
                and document.canonical != run.stored_pages.canonical_url(page)
            )
        elif visit.accepted:
            pass  # these checks passed when the answer arrived
        elif not run.source.kind_of(page.url).is_shielded:
            pass  # an emptied file is news
        elif await self._is_soft_404(visit, document):
            visit.outcome = Outcome.SOFT_404
            visit.error = "status 200 with the text that this host shows for missing pages"
        elif held and not run.forces(page) and (refusal := self._shield(visit, document)):
            if refusal[0] is Fault.COLLAPSED and run.collapses.undecided:
                self._let_wait(visit, document)
            visit.fail(*refusal)
            parsed.document = None
            return
        elif (wall := self._wall(visit, document)) is not None:
            visit.fail(Fault.LOGIN, wall)
            parsed.document = None
            return
        parsed.marked = run.site_lists.marked(page.url, document.content_type, document)
        parsed.chunks = run.site_lists.chunks(document, parsed.marked)

    def _wall(self, visit: Visit, document: Document) -> str | None:
        """Return why a page that never had content is a wall; None if it is none, or a seed."""
        page, run = visit.page, self._run
        if page.state.standing is Standing.HELD or page.record.was_held or run.forces(page):
            return None
        if run.seeds.is_seed(page.no):
            return None
        if is_sign_in_page(visit.answer.body or b"", title=document.title):
            return "a login form, and no page is stored: not indexed"
        remembered = run.stored_pages.wall_hash(page)
        is_same = remembered is not None and remembered == visit.parsed.content_hash
        return WALL_OF_REDIRECTS if is_same else None

    def _shield(self, visit: Visit, document: Document) -> tuple[Fault, str] | None:
        """Return the reason to keep the stored page instead of an answer, or None."""
        pages, page = self._run.stored_pages, visit.page
        length, before = len(document.text), pages.text_length(page)
        if is_login_form(
            visit.answer.body or b"",
            title=document.title,
            text_length=length,
            held_text_length=before,
        ):
            return Fault.LOGIN, "a login form instead of the page; the stored page stays"
        found_so = page.state.error_count if page.state.http_status == Fault.COLLAPSED else 0
        collapsed = is_collapsed(text_length=length, held_text_length=before)
        accepted = self._accepts(page, found_so)
        # Only where it decides: to look for the text reads the last changes of the registry.
        looks = found_so > 0 and not (collapsed or accepted)
        repeated = self._replacements.is_repeated(visit, document, withheld=looks)
        was_refused = page.state.http_status == Fault.LOGIN
        if (repeated or was_refused) and self._became_sign_in(visit, document):
            return (
                Fault.LOGIN,
                "the login form of other pages instead of the page; the stored page stays",
            )
        if (collapsed or repeated) and not (
            accepted or pages.had_text(page.no, visit.parsed.text_hash)
        ):
            what = f"{length:,} of {before:,} characters remain" if collapsed else _REPEATED
            return Fault.COLLAPSED, f"{what}; the stored page stays for now"
        return None

    def _became_sign_in(self, visit: Visit, document: Document) -> bool:
        """Whether a page that was none is a sign-in page now."""
        before = self._run.stored_pages.title(visit.page)
        return is_sign_in_page(visit.answer.body or b"", title=document.title) and not says_sign_in(
            before
        )

    def _let_wait(self, visit: Visit, document: Document) -> None:
        """Keep the answer of a withheld page, until the end of the run decides about it."""
        length, before = len(document.text), self._run.stored_pages.text_length(visit.page)
        visit.collapse = collapse_in_run(
            visit,
            document,
            shrank=is_collapsed(text_length=length, held_text_length=before),
            repeated=self._replacements.is_shared(visit, document),
        )

    def _accepts(self, page: Page, found_so: int) -> bool:
        run, age, pace = self._run, 0, 0
        if found_so and run.due_pages is not None:
            schedule = run.options.schedule
            age = run.due_pages.now - (run.stored_pages.turned_at(page) or 0)
            pace = schedule.spread(schedule.base, 0)
        return accepts_collapse(found_so, age=age, pace=pace)

    def _follow(self, visit: Visit, document: Document, *, nofollow: bool) -> None:
        run, links = self._run, document.links
        if nofollow or document.nofollow or visit.page.plan.mode is Mode.NONE:
            links = tuple(link._replace(nofollow=True) for link in links)
        if (session := run.session) is not None:
            links = tuple(link for link in links if not session.is_logout(link.url, link.anchor))
        overlong = [redacted_text(url) for url in document.overlong if not run.source.lists(url)]
        run.links.follow(
            visit,
            links,
            canonical=document.canonical,
            cut=document.links_cut,
            overlong=overlong,
        )


def _is_read_otherwise(visit: Visit) -> bool:
    """Whether a page is read by a browser for the first time, or no more: its text is no news."""
    attempt, page = visit.attempt, visit.page
    if attempt is None or visit.again or page.plan.read_by is None:
        return False
    return (page.rendering is None) is not (attempt.rendering is None)


def run_verdict_of_visit(run: Run, visit: Visit) -> Verdict:
    """Return the action that the rules choose for a visit after ``Reading.take``."""
    page = visit.page
    if waits_for_browser(page.state.standing, visit.http_status):
        return WAITS
    record = page.record
    force = run.forces(page) or record.configuration != page.plan.wanted or visit.parsed.recanonical
    force = force or visit.parsed.reread
    alias = record.canonical_no is not None
    is_spelled = visit.url != page.url  # the index has the address that answers
    is_moved = visit.answer.file is not None and is_spelled
    verdict = decide(page.state.standing, visit.outcome, force=force or is_spelled, alias=alias)
    return decide_moved(verdict) if is_moved else verdict


def _header_directives(visit: Visit) -> tuple[bool, bool]:
    """Return two flags: noindex and nofollow in the X-Robots-Tag lines of an answer."""
    directives = [
        html.robots_meta_directives(line, time.time()) for line in visit.answer.robots_tags
    ]
    return any(noindex for noindex, _ in directives), any(nofollow for _, nofollow in directives)


def _got_first_cookie(visit: Visit) -> bool:
    """Whether a cookie came with the answer, and none before it in this visit."""
    attempt = visit.attempt
    got_others = attempt is None or (attempt.cookies is not None and attempt.cookies.received)
    return bool(visit.answer.set_cookies) and not got_others


def _judge_as_redirect(visit: Visit, target: str) -> None:
    """Judge a page that leads on at once as a temporary redirect."""
    _drop_body(visit)
    visit.refreshed = True
    visit.outcome, visit.http_status = Outcome.REDIRECT, REFRESHED
    visit.error = f"redirected by a refresh to {redacted_text(target)}"[:1024]


def _drop_body(visit: Visit) -> None:
    parsed = visit.parsed
    visit.answer.body = parsed.document = parsed.body_hash = None


def _keeps_links(visit: Visit) -> bool:
    """Whether to replay the stored links of a page: no new body replaced them (ADR 131).

    Errors and redirects leave a stored page and its links in place. The links of an excluded page
    do not count, and an address without a stored page has none.
    """
    standing = visit.page.state.standing
    match visit.outcome:
        case Outcome.EXCLUDED:
            return bool(visit.page.kind)  # an excluded sitemap still keeps its pages reachable
        case Outcome.NOT_FOUND | Outcome.SOFT_404 | Outcome.HTTP_ERROR | Outcome.REDIRECT:
            return standing is not Standing.BARE
        case Outcome.NOT_ACCEPTABLE:
            return standing is Standing.HELD
        case _:
            return visit.parsed.links is None


def _not_indexed(mode: Mode) -> str:
    return f"not indexed: {mode.word}, by index_modes"


class VisitSteps:
    """The steps that the pipelines of a crawl take, as does a run of tests without a network."""

    def __init__(
        self, run: Run, reading: Reading, damaged: Callable[[RegistryError | SourceError], None]
    ) -> None:
        """``damaged`` ends the run, because its registry cannot be read or written."""
        self._run = run
        self._reading = reading
        self._damaged = damaged

    async def read(self, visit: Visit) -> Visit | NextRequest | None:
        """Fill in a Visit, and return the one that counts, or the request with which it goes on.

        An answer that does not bring the page waits while another spelling of the address is
        asked. None: the visit has no end that is to be stored, or waits for the proof of a login.

        Raises:
            GivenUpError: the run ended before its document was read; the page stays pending.
        """
        run, reading = self._run, self._reading
        if run.session is not None and not run.session.admits(visit):
            return None
        if visit.attempt is not None and visit.attempt.away is not None:  # on the way
            visit = reading.on_the_way(visit)
            if visit.respelled is not None:
                return _postponed(visit, *visit.respelled)
        settled = run.spellings.settled(visit)
        if settled is None:
            return _postponed(visit, run.spellings.following(visit))
        visit = settled
        if visit.page.plan.verify:
            return visit
        try:
            self._note(await reading.take(visit))
            if visit.respelled is not None:
                return _postponed(visit, *visit.respelled)
            if run.spellings.is_open(visit):  # its body is no page
                settled = run.spellings.settled(visit)
                if settled is None:
                    return _postponed(visit, run.spellings.following(visit))
                visit = settled
                self._note(await reading.take(visit))
        except GivenUpError:
            if not (visit.again or visit.accepted):
                run.turns.unanswered(visit.page)
            raise
        if visit.page.plan.late and run.spellings.adds_nothing(visit):
            visit.postponed = True
            return None
        return visit

    def _note(self, damage: RegistryError | SourceError | None) -> None:
        if damage is not None:
            self._damaged(damage)


def judge_run_visit(run: Run, visit: Visit) -> Verdict:
    """Set the verdict of the rules on a Visit, and return it.

    The look at an unreached page gets none.
    """
    visit.verdict = verdict = run_verdict_of_visit(run, visit)
    is_other_body = visit.parsed.body_hash not in (None, visit.page.record.body_hash)
    if not (verdict.action is Action.INDEX or (verdict.action is Action.TOUCH and is_other_body)):
        visit.parsed.chunks = []  # of another body with the same text they may have other places
    return verdict


def _postponed(visit: Visit, url: str, cookie: str = "") -> NextRequest:
    visit.postponed = True
    return NextRequest(url, cookie)

"""Answers to documents: what a run reads, judges, shields and extracts again (design.md 3)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from smartcrawl.extract import html
from smartcrawl.extract.chunks import chunks
from smartcrawl.extract.documents import FORMAT_FAULTS, DocumentLimits, DocumentReader
from smartcrawl.extract.formats import FormatError
from smartcrawl.extract.hashes import body_hash, content_hash, text_hash
from smartcrawl.extract.sitemaps import looks_like
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import (
    GivenUpError,
    RegistryError,
    SnapshotError,
    SnapshotStoreError,
)
from smartcrawl.model.pages import NAMES_SIGNED, Visit
from smartcrawl.model.signatures import unsigned
from smartcrawl.rules.model import Extraction, Fault, Mode, Outcome, Standing
from smartcrawl.rules.reindex import Verdict, decide
from smartcrawl.rules.shield import accepts_collapse, is_collapsed, is_login
from smartcrawl.rules.traps import Trap
from smartcrawl.run.collapses import collapse_of
from smartcrawl.run.links import MAX_HOPS
from smartcrawl.run.run import Run
from smartcrawl.run.sitemaps import read_as_sitemap

logger = logging.getLogger(__name__)

NOINDEX: Final = "not indexed: noindex"
_BLANK: Final = b"\0\t\n\f\r "  #: bytes of an empty body


class Reading:
    """Fills in the visits of a run from their answers, and offers the links that they lead to.

    A new body is read once; any other answer replays the stored links. Every visit passes here,
    failed requests included, so this is the one place where links are offered (R4-35).
    """

    def __init__(
        self,
        run: Run,
        *,
        is_soft_404: Callable[[Visit, Document], Awaitable[bool]],
        scope_moved: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        """Take the run and its surroundings.

        ``is_soft_404`` probes the host of a page. ``scope_moved`` is called when a redirect of
        a seed moves the scope. ``is_stopping`` ends the waiting for a process.
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
                seconds_per_host=options.extract_seconds_per_host,
            ),
            unreadable=run.stored_pages.unreadable,
            is_stopping=is_stopping,
        )

    async def take(self, visit: Visit) -> RegistryError | None:
        """Fill in document, hashes, chunks and links; an error of this program is an outcome, too.

        Returns the damage of the registry that this came upon, None where it is sound.

        Raises:
            GivenUpError: the crawl ended before the document was read.
        """
        parsed = visit.parsed
        run = self._run
        run.turns.landed(visit.page)
        try:
            await self._fill_in(visit)
        except GivenUpError:
            raise
        except Exception as error:
            damage = run.registry.database.damage(error)
            if damage is not None:
                return damage
            logger.exception("cannot process %s", visit.url)
            visit.fail(Fault.PROCESSING, f"processing failed: {type(error).__name__}: {error}")
            parsed.document, parsed.links, parsed.targets = None, None, b""
        run.trust.learn(visit)
        # The pages behind a seed show whether the whole site answers in this way.
        waits = visit.collapse is not None and not run.seeds.is_seed(visit.page.no)
        if _keeps_links(visit) and not (visit.again or waits):
            run.links.replay(visit.page)
        return None

    async def close(self) -> None:
        """End the processes that read documents."""
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
        """Take a 304: it confirms the body, but not that the page may still be indexed.

        Its headers may forbid that now. A changed configuration may exclude the page, or require
        that the stored body is read again.
        """
        page = visit.page
        plan = page.plan
        noindex, _ = _header_directives(visit)
        if noindex:
            if page.state.standing is Standing.HELD:
                visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, NOINDEX
            elif (
                page.record.canonical_no is not None
            ):  # no alias any more: the next request is whole
                visit.answer.etag = visit.answer.last_modified = None
        elif plan.extraction is Extraction.REFUSED:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, _not_indexed(plan.mode)
        elif plan.extraction is Extraction.AGAIN:
            await self._read_again(visit)

    async def _read_again(self, visit: Visit) -> None:
        """Read the stored body of a page under the changed configuration (M-15)."""
        answer = visit.answer
        run, page = self._run, visit.page
        visit.extracted_again = True
        try:
            answer.body, answer.content_type = await run.stored_pages.body(page)
        except SnapshotStoreError as error:  # the store failed; the snapshot may be sound
            visit.extracted_again = False
            run.extractions.unread(str(error))
            return
        except SnapshotError as error:
            visit.snapshot_error = str(error)
            return
        visit.outcome, answer.content_length = Outcome.CHANGED, page.record.content_length
        await self._read(visit, answer.body)

    def _redirect(self, visit: Visit, target: str) -> None:
        run = self._run
        if run.seeds.move(visit.page.no, target):
            hosts = ", ".join(sorted(run.scope.hosts))
            logger.warning("the seed moved to %s: the scope is now %s", target, hosts)
            self._scope_moved()
        if not run.links.follow_redirect(visit, target):
            visit.fail(Fault.TOO_MANY_REDIRECTS, f"more than {MAX_HOPS} redirects in a row")

    async def _read(self, visit: Visit, body: bytes) -> None:
        """Read a body: as a sitemap, as the stored one, or as a document."""
        run, page = self._run, visit.page
        visit.parsed.body_hash = body_hash(body)
        noindex, nofollow = _header_directives(visit)
        as_sitemap = page.kind or page.plan.named or looks_like(body)
        if as_sitemap and read_as_sitemap(run, visit, body):
            return
        if _is_emptied(visit, body) and not run.forces(page):
            visit.fail(Fault.EMPTY, "status 200 with an empty body: the stored page stays")
        elif self._is_stored(visit) and not (run.forces(page) or noindex or nofollow):
            visit.outcome = Outcome.SAME
        else:
            await self._read_document(visit, body, noindex=noindex, nofollow=nofollow)

    def _is_stored(self, visit: Visit) -> bool:
        """Whether the stored page and its links are all that reading this body would yield."""
        page = visit.page
        record = page.record
        return (
            visit.parsed.body_hash == record.body_hash
            and page.state.standing is Standing.HELD
            and record.configuration == page.plan.wanted
            and not record.signs & NAMES_SIGNED  # its links are of no use without signatures
            and bool(record.targets)  # none may be due to a nofollow header of that time
            and visit.url == page.url  # relative links resolve against the answering address
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
        try:
            document, readable = await self._documents.read(
                visit, body, links=not keeps, language=known, forced=run.forces(page)
            )
        except FormatError as error:
            visit.fail(FORMAT_FAULTS[error.kind], f"cannot be read: {error}")
            return
        parsed.document = document
        if document.canonical is not None:
            parsed.document = replace(document, canonical=unsigned(document.canonical))
        self._hash(visit, document)
        if not readable:
            visit.outcome = Outcome.NOT_ACCEPTABLE
            visit.error = f"not indexed: this version does not read {document.content_type}"
            visit.answer.body = (
                None  # without a snapshot: another configuration does not read it either
            )
        else:
            await self._judge(visit, parsed.document, noindex=noindex)
        if visit.http_status == Fault.COLLAPSED:
            return  # its links are followed when it is accepted
        if keeps:
            parsed.canonical_no = page.record.canonical_no
        else:
            self._follow(visit, document, nofollow=nofollow)
        if visit.outcome in (Outcome.SOFT_404, Outcome.UNPROCESSABLE):
            parsed.links = None
        elif visit.outcome is Outcome.CHANGED and run.links.stands_aside(visit):
            visit.outcome = Outcome.ALIAS

    def _hash(self, visit: Visit, document: Document) -> None:
        parsed = visit.parsed
        if self._run.options.content_hash_basis == "bytes":
            parsed.content_hash = parsed.text_hash = parsed.body_hash
        else:
            parsed.text_hash = text_hash(document)
            parsed.content_hash = content_hash(document)
        parsed.sample = html.sample_of(document)

    async def _judge(self, visit: Visit, document: Document, *, noindex: bool) -> None:
        """Decide whether a document is to be indexed, and whether it is new."""
        page = visit.page
        if noindex or document.noindex:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, NOINDEX
            if not document.noindex:  # a 304 may omit the header: the next answer must be whole
                visit.answer.etag = visit.answer.last_modified = None
        elif page.plan.mode is not Mode.INDEX:
            visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, _not_indexed(page.plan.mode)
        elif visit.outcome is Outcome.CHANGED:
            await self._judge_change(visit, document)

    async def _judge_change(self, visit: Visit, document: Document) -> None:
        """Compare a document with the stored page, and shield that from answers of no page."""
        parsed = visit.parsed
        run, page = self._run, visit.page
        held = page.state.standing is Standing.HELD
        if held and (
            visit.extracted_again or parsed.content_hash == run.stored_pages.content_hash(page)
        ):
            visit.outcome = Outcome.SAME
            parsed.recanonical = (
                run.options.force_on_canonical  # R0-86
                and document.canonical != run.stored_pages.canonical_url(page)
            )
        elif visit.accepted:
            pass  # it was judged when its answer came
        elif await self._is_soft_404(visit, document):
            visit.outcome = Outcome.SOFT_404
            visit.error = "status 200 with the text that the host has for missing pages"
        elif held and not run.forces(page) and (refusal := self._shield(visit, document)):
            if refusal[0] is Fault.COLLAPSED and run.collapses.undecided:
                visit.collapse = collapse_of(visit, document)
            visit.fail(*refusal)
            parsed.document = None
            return
        parsed.chunks = chunks(document)

    def _shield(self, visit: Visit, document: Document) -> tuple[Fault, str] | None:
        """Return why an answer may not replace the stored page, None when it may."""
        pages, page = self._run.stored_pages, visit.page
        length, before = len(document.text), pages.text_length(page)
        if is_login(
            visit.answer.body or b"",
            title=document.title,
            text_length=length,
            held_text_length=before,
        ):
            return Fault.LOGIN, "a login form instead of the page: the stored page stays"
        found_so = page.state.error_count if page.state.http_status == Fault.COLLAPSED else 0
        collapsed = is_collapsed(text_length=length, held_text_length=before)
        if collapsed and not (accepts_collapse(found_so) or pages.had_text(visit)):
            message = f"{length:,} of {before:,} characters remain: the stored page stays for now"
            return Fault.COLLAPSED, message
        return None

    def _follow(self, visit: Visit, document: Document, *, nofollow: bool) -> None:
        run, links = self._run, document.links
        if nofollow or document.nofollow or visit.page.plan.mode is Mode.NONE:
            links = tuple(link._replace(nofollow=True) for link in links)
        run.links.follow(visit, links, canonical=document.canonical, cut=document.links_cut)
        for url in filter(run.scope.holds, document.overlong):
            run.shortcomings.refuse(Trap.URL_TOO_LONG, url)


def verdict_of(run: Run, visit: Visit) -> Verdict:
    """Return the action that the rules choose for a visit that was read."""
    page = visit.page
    record = page.record
    force = run.forces(page) or record.configuration != page.plan.wanted or visit.parsed.recanonical
    alias = record.canonical_no is not None
    return decide(page.state.standing, visit.outcome, force=force, alias=alias)


def _header_directives(visit: Visit) -> tuple[bool, bool]:
    """Return whether the X-Robots-Tag lines of an answer say noindex, and nofollow."""
    directives = [html.robots_directives(line) for line in visit.answer.robots_tags]
    return any(noindex for noindex, _ in directives), any(nofollow for _, nofollow in directives)


def _keeps_links(visit: Visit) -> bool:
    """Whether the stored links stay in force: no new body brought others (design.md 8).

    A stored page stays, whatever its address answers, and so do its links. An excluded page
    has no links in force, nor has an error at an address of which nothing is stored.
    """
    standing = visit.page.state.standing
    match visit.outcome:
        case Outcome.EXCLUDED:
            return bool(visit.page.kind)  # the pages of a sitemap live as long as its stored links
        case Outcome.NOT_FOUND | Outcome.SOFT_404 | Outcome.HTTP_ERROR | Outcome.REDIRECT:
            return standing is not Standing.BARE
        case Outcome.NOT_ACCEPTABLE:
            return standing is Standing.HELD
        case _:
            return visit.parsed.links is None


def _not_indexed(mode: Mode) -> str:
    return f"not indexed: {mode.word}, by index_modes"


def _is_emptied(visit: Visit, body: bytes) -> bool:
    """Whether a 200 has an empty body where a page is stored."""
    page = visit.page
    return (
        visit.outcome is Outcome.CHANGED
        and page.state.standing is Standing.HELD
        and not body.strip(_BLANK)
        and visit.parsed.body_hash != page.record.body_hash
    )

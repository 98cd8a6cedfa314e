"""Remedies for incomplete runs, and the meanings of a run's notes."""

from __future__ import annotations

from collections.abc import Iterable

from smartcrawl.model.program import program_argument, program_name
from smartcrawl.registry.removal.purge import (
    is_emptied_library_reason,
    is_emptied_root_reason,
    is_mount_reason,
)
from smartcrawl.rules.model import Fault
from smartcrawl.rules.seal import DEPTH_LEFT, LOGIN_FAILED, NOT_DUE, seed_led_to
from smartcrawl.rules.traps import Trap

#: What an operator can do about the reason that a run is incomplete, by its first word. Braces
#: are for ``reported_remedy``.
REMEDIES = {
    "seed_failed": "check the address, and whether the server answers it",
    "pin_failed": "it was added by hand; to drop it: {program} forget URL",
    "login": "no page was changed or removed for it; check the table [sources.{source}.auth] "
    "and its secrets, then crawl again (docs/howto/login.md)",
    "render": "those pages stay as they are; without a browser, install one: script/setup browser,"
    " or name it in RENDER_BROWSER (docs/howto/javascript.md); pages that wait are rendered by the"
    " next runs, more of them with a higher RENDER_PER_RUN",
    "data": "pages without their data are not stored, and stored ones stay; see data_hosts and the"
    " robots.txt of that host (docs/howto/javascript.md)",
    "wall": "a login form came instead of pages; stored pages stay, and this run does not count "
    "towards removing unlinked pages",
    "unreachable": "the server or the network failed; run again later",
    "host_down": "its pages stay as they are; run again when the host responds",
    "robots_unknown": "no page of that host was requested; run again when its robots.txt"
    " can be fetched",
    "listing": "nothing is removed for missing from the listing; make the place readable and run "
    "again",
    "too_many_links": "links beyond the first 50,000 were not followed",
    "too_many_urls": "addresses beyond the first 50,000 were not followed; split the sitemap",
    "sitemap_failed": "pages that only this sitemap lists were not found; run again when it can"
    " be fetched",
    "sitemap_nesting": "sitemaps below the third level were not read",
    **{trap.value: trap.words for trap in Trap},
    "code_failed": "your own code raised it; its pages stay as they are, and the next run requests"
    " them again",
    "max_pages": "raise or leave out max_pages to crawl everything",
    DEPTH_LEFT: "this run does not count towards removing deeper pages; leave out DEPTH_LIMIT to "
    "crawl everything",
    "redirects_left": "raise REDIRECT_MAX_TIMES, or forget the pages behind the redirects",
    "pending": "the next run finds them again",
    NOT_DUE: "not due yet; this run does not count towards removing unlinked pages",
    "no_pages": "nothing was fetched; unless another reason says why, check the seeds or the root, "
    "and the scope",
    "interrupted": "continue with {resume}",
    "paused": "on request; continue with {resume}",
    "cancelled": "on request; the next crawl starts a new run",
}
#: The same where a folder or bucket has no file.
_EMPTIED = (
    "mount it; or, if it is empty on purpose, remove its pages: {program} orphans --approve {run}"
)
#: The same where a library lists no item, and no count confirms that.
_EMPTIED_LIBRARY = (
    "give the app the right to read it; or, if it is empty on purpose, remove its pages: "
    "{program} orphans --approve {run}"
)
#: Reasons of runs that ended before they had asked what they had found.
_CUT = {"max_pages", "interrupted", "paused", "cancelled", "pending"}
#: Reasons of runs that left out links or addresses.
_LEFT_OUT = {
    *(trap.value for trap in Trap),
    *("too_many_links", "too_many_urls", "sitemap_nesting", "redirects_left"),
}
_FORBIDDEN = "ask its owner to allow this crawler; stored pages stay for now"
_DISALLOWED = "(disallowed by "  #: in the reason of a seed
#: In the reason of a seed where that of the login or of the browser, beside it, has the remedy.
_OTHERS_TELL = (LOGIN_FAILED, f"{Fault.NO_BROWSER:d}: ")
#: Remedies that differ for document libraries, whose commands resume no run.
_OF_LIBRARIES = {"interrupted": "the next download fetches the rest"}
#: What a note of a run means, by its first word: which answers the run did not believe, and why.
NOTES = {
    "temporary_redirects": "their stored content stays; if these pages are gone for good, remove"
    " them: {program} deltamerge -D",
    "redirect_loops": "the server redirects in circles; their stored content stays",
    "challenge": "a bot check came instead of the page; the stored content stays",
    "login": "a login form came instead of the page; the stored content stays",
    "collapsed": "too many pages lost nearly all of their text, or several got the same text; the "
    "stored content stays until a third run in a row finds the same",
    "rendering": "the page did not settle in the browser; the stored content stays",
    "data_missing": "requests of the page for its data were not answered; the stored content stays",
    "unsigned": "an error at an address whose signature no page gave this time; the stored content "
    "stays",
    "other_version": "a 304 response named another version; the stored content stays, and the next"
    " run downloads the whole page",
    "extraction_budget": "reading the documents of this host took longer than"
    " EXTRACT_SECONDS_PER_HOST; the stored content stays, and the next run reads them",
    "trimmed": "the app may not see all items, or items were lost, so nothing is removed; give the "
    "app the right to read all items, or approve the removals",
    "endless": "the 20 pages before have the same text and no new links, so further ones are not "
    "requested; the pattern leaves them out for good",
    "faulty_parts": "tables, code, links or pictures that cannot be right are left out; their text "
    "is stored",
    "unread_files": "documents of these kinds are not read; save them in a newer format, such as"
    " .docx or .pdf",
    "canonical_ignored": "its pages are indexed under their own addresses",
}


def reported_remedy(word: str, *, source: str = "NAME", is_library: bool = False) -> str:
    """Return the remedy for a reason by its first word, as the called program names it; or ""."""
    remedy = REMEDIES.get(word, "")
    if is_library:
        remedy = _OF_LIBRARIES.get(word, remedy)
    return remedy.format(program=program_name(), resume=program_argument("resume"), source=source)


def unreached_page_reason(reasons: Iterable[str], them: str) -> str:
    """Return why an incomplete run did not reach pages; ``them``: "it" or "them".

    >>> unreached_page_reason(["max_pages", "calendar: 2 addresses"], "it")
    'this run stopped before it reached it'
    >>> unreached_page_reason(["calendar: 2 addresses"], "them")
    'none of the links that this run followed led to them, and some links were left out'
    >>> unreached_page_reason(["seed_failed: http://a.example/ (disallowed by /robots.txt)"], "it")
    'robots.txt disallows the pages that may link to it'
    >>> unreached_page_reason(["sitemap_failed: http://a.example/x.xml"], "it")
    'a page that may link to it could not be fetched'
    """
    found = list(reasons)
    words = {reason.partition(":")[0] for reason in found}
    if words & _CUT:
        return f"this run stopped before it reached {them}"
    if any(_DISALLOWED in reason for reason in found):
        return f"robots.txt disallows the pages that may link to {them}"
    if words & _LEFT_OUT:
        return (
            f"none of the links that this run followed led to {them}, and some links were left out"
        )
    return f"a page that may link to {them} could not be fetched"


def reported_reason(
    reason: str, run: int, *, source: str = "NAME", is_library: bool = False
) -> str:
    """Return the reason that a run is incomplete with its remedy in brackets, if there is one.

    >>> reported_reason("interrupted", 2)
    'interrupted (continue with -a resume=1)'
    >>> reported_reason("interrupted", 2, is_library=True)
    'interrupted (the next download fetches the rest)'
    >>> print(reported_reason("listing: /docs (it has no file, and 3 files are stored)", 2)[56:])
    (mount it; or, if it is empty on purpose, remove its pages: scrapy orphans --approve 2)
    """
    word = reason.partition(":")[0]
    remedy = reported_remedy(word, source=source, is_library=is_library)
    if reason.startswith("seed_failed: ") and _DISALLOWED in reason:
        remedy = _FORBIDDEN
    if f"{Fault.ADDRESS_REFUSED:d}: " in reason:
        remedy = ""  # the reason names the setting that permits the address
    if word == "seed_failed" and any(part in reason for part in _OTHERS_TELL):
        remedy = ""
    if seed_led_to(reason) is not None:
        remedy = "the target was not crawled; crawl that address, or add it to the seeds"
    if is_emptied_root_reason(reason) or is_mount_reason(reason):
        remedy = _EMPTIED.format(program=program_name(), run=run)
    elif is_emptied_library_reason(reason):
        remedy = _EMPTIED_LIBRARY.format(program=program_name(), run=run)
    return f"{reason} ({remedy})" if remedy else reason

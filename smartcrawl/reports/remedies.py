"""Remedies for incomplete runs, and the meanings of a run's notes."""

from __future__ import annotations

from collections.abc import Iterable

from smartcrawl.model.program import program_argument, program_name
from smartcrawl.registry.removal.emptied import (
    is_emptied_library_reason,
    is_emptied_root_reason,
    is_mount_reason,
)
from smartcrawl.rules.model import Fault
from smartcrawl.rules.seal import DEPTH_LEFT, NOT_DUE, seed_led_to
from smartcrawl.rules.traps import Trap

#: What an operator can do about the reason that a run is incomplete, by its first word. Braces
#: are for ``reported_remedy``.
REMEDIES = {
    "seed_failed": "check the address, and whether the server answers it",
    "pin_failed": "it was registered by hand; to take it back: {program} forget URL",
    "wall": "a login form answered in place of pages; what is stored stays, and pages without a"
    " link to them do not age",
    "unreachable": "the server or the network was failing; run again later",
    "host_down": "its pages stay as they are; run again when the host answers",
    "robots_unknown": "no page of that host was asked; run again when its robots.txt answers",
    "listing": "nothing that the listing lacks is removed; make the place readable, and run again",
    "too_many_links": "links beyond the first 50,000 were not followed",
    "too_many_urls": "addresses beyond the first 50,000 were not followed: split the sitemap",
    "sitemap_failed": "what only it names was not found; run again when it answers",
    "sitemap_nesting": "sitemaps below the third level were not read",
    **{trap.value: trap.words for trap in Trap},
    "code_failed": "code of your own raised it; its pages stay as they are, and the next run asks"
    " them again",
    "max_pages": "raise or leave out max_pages to see everything",
    DEPTH_LEFT: "nothing that lies deeper ages; leave out DEPTH_LIMIT to see everything",
    "redirects_left": "raise REDIRECT_MAX_TIMES, or forget the pages behind the redirects",
    "pending": "the next run finds them again",
    NOT_DUE: "these pages were not due; nothing is missing, and this run does not count towards"
    " removing unlinked pages",
    "no_pages": "nothing was visited: where no other reason says why, check the seeds or the root,"
    " and the scope",
    "interrupted": "go on with {resume}",
    "paused": "by order; only {resume} goes on with it",
    "cancelled": "by order; the next crawl begins a new run",
}
#: The same where a folder or bucket has no file.
_EMPTIED = "mount it, or if it is empty on purpose, remove them: {program} orphans --approve {run}"
#: The same where a library lists no item, and no count confirms that.
_EMPTIED_LIBRARY = (
    "give the app the right to read it, or if it is empty on purpose, remove them:"
    " {program} orphans --approve {run}"
)
#: Reasons of runs that ended before they had asked what they had found.
_CUT = {"max_pages", "interrupted", "paused", "cancelled", "pending"}
#: Reasons of runs that left out links or addresses.
_LEFT_OUT = {
    *(trap.value for trap in Trap),
    *("too_many_links", "too_many_urls", "sitemap_nesting", "redirects_left"),
}
_FORBIDDEN = "ask its owner to let this crawler in; what is stored stays for now"
_DISALLOWED = "(disallowed by "  #: in the reason of a seed
#: Remedies that differ for document libraries, whose commands resume no run.
_OF_LIBRARIES = {"interrupted": "the next download brings the rest"}
#: What a note of a run means, by its first word: which answers the run did not believe, and why.
NOTES = {
    "temporary_redirects": "their old content stays; if these pages are gone for good, remove them:"
    " {program} deltamerge -D",
    "redirect_loops": "their old content stays; the server redirects in circles",
    "challenge": "a wall against bots answered; the stored content stays",
    "login": "a login form answered; the stored content stays",
    "collapsed": "too many pages lost nearly all of their text, or several got the same text; the"
    " stored content stays, and the third run in a row that finds this believes it",
    "unsigned": "an error where no page named their signed address; the stored content stays",
    "other_version": "a 304 named another version; the stored content stays, and the next run"
    " downloads the whole page",
    "extraction_budget": "the documents of the host took more than EXTRACT_SECONDS_PER_HOST; the"
    " stored content stays, and the next run reads them",
    "trimmed": "rights trim the listing, or it lost items: no removal is carried out; give the app"
    " the right to read all items, or approve the removals",
    "endless": "20 pages in a row before have the same text and no news; further ones are not"
    " requested, and that pattern leaves them out for good",
    "canonical_ignored": "its pages are indexed under their own addresses",
}


def reported_remedy(word: str, *, is_library: bool = False) -> str:
    """Return the remedy for a reason by its first word, as the called program names it; or ""."""
    remedy = REMEDIES.get(word, "")
    if is_library:
        remedy = _OF_LIBRARIES.get(word, remedy)
    return remedy.format(program=program_name(), resume=program_argument("resume"))


def unreached_page_reason(reasons: Iterable[str], them: str) -> str:
    """Return why an incomplete run did not reach pages; ``them``: "it" or "them".

    >>> unreached_page_reason(["max_pages", "calendar: 2 addresses"], "it")
    'this run was cut short before it came to it'
    >>> unreached_page_reason(["calendar: 2 addresses"], "them")
    'no link that this run followed led to them, and some were left out'
    >>> unreached_page_reason(["seed_failed: http://a.example/ (disallowed by /robots.txt)"], "it")
    'robots.txt forbids the pages that might have led to it'
    >>> unreached_page_reason(["sitemap_failed: http://a.example/x.xml"], "it")
    'what might have led to it gave no answer'
    """
    found = list(reasons)
    words = {reason.partition(":")[0] for reason in found}
    if words & _CUT:
        return f"this run was cut short before it came to {them}"
    if any(_DISALLOWED in reason for reason in found):
        return f"robots.txt forbids the pages that might have led to {them}"
    if words & _LEFT_OUT:
        return f"no link that this run followed led to {them}, and some were left out"
    return f"what might have led to {them} gave no answer"


def reported_reason(reason: str, run: int, *, is_library: bool = False) -> str:
    """Return the reason that a run is incomplete with its remedy in brackets, if there is one.

    >>> reported_reason("interrupted", 2)
    'interrupted (go on with -a resume=1)'
    >>> reported_reason("interrupted", 2, is_library=True)
    'interrupted (the next download brings the rest)'
    >>> print(reported_reason("listing: /docs (it has no file, and 3 files are stored)", 2)[56:])
    (mount it, or if it is empty on purpose, remove them: scrapy orphans --approve 2)
    """
    remedy = reported_remedy(reason.partition(":")[0], is_library=is_library)
    if reason.startswith("seed_failed: ") and _DISALLOWED in reason:
        remedy = _FORBIDDEN
    if f"{Fault.ADDRESS_REFUSED:d}: " in reason:
        remedy = ""  # the reason names the setting that permits the address
    if seed_led_to(reason) is not None:
        remedy = "where it leads was not crawled: crawl that address, or name it among the seeds"
    if is_emptied_root_reason(reason) or is_mount_reason(reason):
        remedy = _EMPTIED.format(program=program_name(), run=run)
    elif is_emptied_library_reason(reason):
        remedy = _EMPTIED_LIBRARY.format(program=program_name(), run=run)
    return f"{reason} ({remedy})" if remedy else reason

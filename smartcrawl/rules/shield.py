"""Answers in place of a page: walls against bots, collapsed and repeated content."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

START: Final = 65_536  #: bytes at the begin of a body; a wall has its marks there
MAX_BODY: Final = 262_144  #: bytes of a body; no wall is longer
MAX_TEXT: Final = 3_000  #: characters of text that a wall has, white space not counted
MAX_CAPTCHA_TEXT: Final = 500  #: the same where the only mark is a captcha, which pages have, too

MIN_COLLAPSE: Final = 500  #: characters of text; shorter pages do not collapse
COLLAPSE: Final = 10  #: a collapsed page has less than one part in so many
BELIEVED_AFTER: Final = 2  #: runs in a row that found a page collapsed
FEW: Final = 3  #: collapsed pages, or new clones of one page, that are edits in a run of any size
EDITS: Final = 100  #: in a larger run one body in so many may be an edit
MANY: Final = 20  #: pages with texts of others; so many of them are no edits in a run of any size
MIN_REPEATED: Final = 200  #: characters; shorter texts may be equal by chance
MAX_REPEATED: Final = 5_000  #: characters below the headings of an error or a wall
MAX_WAITING: Final = 1_000  #: pages whose bodies wait for the end of their run
MAX_WAITING_SIZE: Final = 67_108_864  #: bytes of their bodies, compressed

# Parts without visible text: comments, scripts, styles, and the title, which is matched apart.
_HIDDEN: Final = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|title)\b.*?(?:</\1\b[^<>]*>|\Z)", re.DOTALL
)
_TAG: Final = re.compile(r"<[^<>]*>")
_TITLE: Final = re.compile(r"<title\b[^<>]*>([^<]+)")
_FIELD: Final = re.compile(
    r'<(?:textarea|select)\b|<input\b(?![^<>]*\btype="?(?:hidden|submit|button|image))'
)
# Of a collapsed page's text: what ids, times and addresses consist of, and the sign of one.
_WORD: Final = re.compile(r"[\dA-Za-z_.:/+=-]+")
_ID: Final = re.compile(r"\d|[A-Fa-f]{8}")
_ANY_ID: Final = "#"


class Header(NamedTuple):
    """A response header by which a product declares that the answer is not the page."""

    words: str  #: its name in messages
    name: str
    value: str = ""  #: empty: any
    status: int = 0  #: the HTTP status that the header needs; 0: any


class Mark(NamedTuple):
    """Signs of a product's own pages that no page of a protected site has."""

    words: str  #: its name in messages
    signs: tuple[str, ...]  #: all in the markup; with a ``title`` anywhere
    title: str = ""  #: the whole title; empty: any
    text: int = MAX_TEXT  #: characters at most; below MAX_TEXT without a field to fill in


HEADERS: Final = (
    Header("a Cloudflare challenge", "cf-mitigated", "challenge"),
    Header("a Vercel challenge", "x-vercel-mitigated", "challenge"),
    Header("an AWS WAF challenge", "x-amzn-waf-action", "challenge"),
    Header("an AWS WAF captcha", "x-amzn-waf-action", "captcha"),
    Header("a SiteGround challenge", "sg-captcha", "challenge"),
    # Pages have these two headers, too: the status decides.
    Header("a DataDome challenge", "x-datadome", status=403),
    Header("a Kasada challenge", "x-kpsdk-ct", status=429),
)

# In lower case, with double quotes.
MARKS: Final = (
    # Cloudflare: the options of its challenge. Pages get a script out of challenge-platform, too.
    Mark("a Cloudflare challenge", ("_cf_chl_opt",)),
    Mark("a Cloudflare challenge", ("/cdn-cgi/challenge-platform/",), "just a moment..."),
    Mark("a Cloudflare block", ("cf-error-details",), "attention required! | cloudflare"),
    Mark("a Cloudflare block", ("cf-error-details", "used cloudflare to restrict access")),
    # AWS WAF: pages may load its script, but have no key for the challenge.
    Mark("an AWS WAF challenge", ("gokuprops", ".awswaf.com/")),
    # Akamai: behavioural challenge, interstitial, and the refusal with its reference number.
    Mark("an Akamai challenge", ("sec-if-cpt-container",)),
    Mark("an Akamai challenge", ("/_sec/verify?provider=interstitial",)),
    Mark("an Akamai block", ("reference&#32;&#35;",), "access denied"),
    # Imperva (Incapsula): the frame of a refusal; a page with noindex and nothing but the script
    # that other pages have, too; "Pardon Our Interruption", today's and that of Distil.
    Mark("an Imperva block", ('id="main-iframe" src="/_incapsula_resource?',)),
    Mark("an Imperva challenge", ('src="/_incapsula_resource?', "noindex"), text=0),
    Mark("an Imperva challenge", ("onprotectioninitialized", "showblockpage")),
    Mark("an Imperva challenge", ("distil",), "pardon our interruption"),
    # DataDome: script and frame; its policy for pages names the host, but loads nothing there.
    Mark("a DataDome challenge", ('src="https://ct.captcha-delivery.com/',)),
    Mark("a DataDome challenge", ('src="https://geo.captcha-delivery.com/',)),
    # HUMAN (PerimeterX): pages have its _pxAppId, too.
    Mark("a HUMAN challenge", ('id="px-captcha"',)),
    Mark("a HUMAN challenge", ("_pxappid",), "access to this page has been denied"),
    Mark("a Kasada challenge", ("kpsdk", "/ips.js")),
    # Sucuri: the script that sets a cookie, and the refusal.
    Mark("a Sucuri challenge", ("sucuri_cloudproxy_js",)),
    Mark("a Sucuri block", ("sucuri.net",), "sucuri website firewall - access denied"),
    # DDoS-Guard: pages get a script of check.ddos-guard.net, but none of these.
    Mark("a DDoS-Guard challenge", ("/.well-known/ddos-guard/js-challenge/",)),
    Mark("a DDoS-Guard captcha", ("/.well-known/ddos-guard/ddg-captcha-page/",)),
    Mark("an Anubis challenge", ("/.within.website/x/cmd/anubis/",)),
    Mark("a SiteGround challenge", ("/.well-known/sgcaptcha",)),
    # Alibaba Cloud: the cookie with the argument of its script, and the slider.
    Mark("an Alibaba Cloud challenge", ("acw_sc__v2", "arg1=")),
    Mark("an Alibaba Cloud captcha", ("/_____tmd_____/",)),
    # Captchas that contact forms have, too.
    Mark("a Turnstile and nothing else", ('class="cf-turnstile"',), text=MAX_CAPTCHA_TEXT),
    Mark("an hCaptcha and nothing else", ('class="h-captcha"',), text=MAX_CAPTCHA_TEXT),
    Mark("a reCAPTCHA and nothing else", ('class="g-recaptcha"',), text=MAX_CAPTCHA_TEXT),
)


def decide_challenge(status: int, headers: Mapping[str, str], body: bytes) -> str | None:
    """Return the name of the bot wall that answered instead of the page; None: it is the page.

    ``headers`` have names in lower case; ``body`` is the whole one, in any encoding that is a
    superset of ASCII. A product is recognised by a header, or by marks in the first 64 KiB of a
    body of up to 256 KiB with at most 3,000 characters of text. Quotations in an article do not
    count, nor do the scripts that products add to the pages that they protect. A captcha alone is
    a wall when nothing can be filled in and there are at most 500 characters of text.

    >>> decide_challenge(403, {"cf-mitigated": "challenge"}, b"")
    'a Cloudflare challenge'

    Source: C18.
    """
    for header in HEADERS:
        if header.name in headers and header.status in (0, status):
            value = headers[header.name].strip().lower()
            if header.value in ("", value):
                return header.words
    return _wall(body) if len(body) <= MAX_BODY else None


def _wall(body: bytes) -> str | None:
    start = lowered_source(body[:START])
    marks = [mark for mark in MARKS if all(sign in start for sign in mark.signs)]
    if not marks:
        return None
    source = lowered_source(body)
    outline = page_outline(source)
    text = _TAG.sub(" ", outline)
    size = sum(map(len, text.split()))
    found = _TITLE.search(source)
    title = found and found[1].strip()
    for mark in marks:
        if size > mark.text or (mark.text < MAX_TEXT and _FIELD.search(outline)):
            continue
        if mark.title:
            if mark.title == title:
                return mark.words
        elif all(source.count(sign) > text.count(sign) for sign in mark.signs):
            return mark.words
    return None


def is_collapsed(*, text_length: int, held_text_length: int) -> bool:
    """Whether a page has less than a tenth of its stored text; lengths are characters.

    A stored text of less than 500 characters does not collapse: the page was edited.

    >>> is_collapsed(text_length=99, held_text_length=1_000)
    True
    >>> is_collapsed(text_length=100, held_text_length=1_000)
    False

    Source: C19.
    """
    return held_text_length >= MIN_COLLAPSE and COLLAPSE * text_length < held_text_length


def is_repeated(*, text_length: int, others: int) -> bool:
    """Whether a stored page is kept because other pages got its new text in this run, too.

    One error, wall or notice that a server answers for all pages has one text, of any length.
    ``others``: the number of these other pages; they had other texts before. Shorter texts than
    200 characters may be equal by chance: such a text is kept out where two others got it.

    >>> [is_repeated(text_length=200, others=n) for n in (0, 1)]
    [False, True]
    >>> [is_repeated(text_length=199, others=n) for n in (1, 2)]
    [False, True]

    Source: C19, ADR 93.
    """
    return others >= (1 if text_length >= MIN_REPEATED else 2)


def text_to_compare(sections: Iterable[tuple[str, str]]) -> str:
    """Return the part of a text by which ``is_repeated`` compares pages.

    ``sections``: heading and text of each. An error or wall may have the page's own title as its
    heading. So headings do not count where 200 to 5,000 characters are below them.

    >>> notice = "We value your privacy. " * 10
    >>> text_to_compare([("Pears", notice)]) == text_to_compare([("Plums", notice)])
    True
    >>> text_to_compare([("Pears", "Sold out."), ("", "Come again.")])
    'Pears\\nSold out.\\nCome again.'

    Source: ADR 93.
    """
    parts = list(sections)
    below = "\n".join(text for _, text in parts if text)
    if MIN_REPEATED <= len(below) <= MAX_REPEATED:
        return below
    return "\n".join(part for section in parts for part in section if part)


def accepts_collapse(errors: int, *, age: int, pace: int) -> bool:
    """Whether to accept a collapsed page after so many consecutive runs found it collapsed.

    A failed page is due again within minutes. So a due crawl also needs ``age``, the seconds since
    the page was found so first, to be those of as many daily crawls. ``pace``: seconds from one
    daily crawl to the next; 0 in a whole run, where ``age`` does not count.

    >>> [accepts_collapse(errors, age=0, pace=0) for errors in range(4)]
    [False, False, True, True]
    >>> [accepts_collapse(5, age=age, pace=100) for age in (199, 200)]
    [False, True]
    """
    return errors >= BELIEVED_AFTER and age >= BELIEVED_AFTER * pace


def text_without_ids(text: str) -> str:
    """Return a collapsed page's text with one sign in place of each id, time and number.

    A captcha or an error that a server answers for every page is one text then, though it names
    another request or time each. A word with a digit counts as an id, and eight hexadecimal digits
    in a row. Edits that differ by numbers only are one text, too: they wait for later runs.

    >>> text_without_ids("Request 8f3ac2e1-77b0, at 07:14:03. Please try again.")
    'Request #, at # Please try again.'
    >>> text_without_ids("Part 1") == text_without_ids("Part 2")
    True

    Source: ADR 37.
    """
    return _WORD.sub(lambda found: _ANY_ID if _ID.search(found[0]) else found[0], text)


class Waiting(NamedTuple):
    """A page whose new text waits until the queue of its run is empty."""

    no: int
    text: bytes  #: hash of the new text, without ids
    shrank: bool  #: whether less than a tenth of its text is left
    repeated: bool  #: whether another page got the text, and does not wait for the decision
    clones: int  #: pages that got the content of a page that stands and answered; 0: none stands


def edits_among_waiting(pages: Sequence[Waiting], *, asked: int, bodies: int) -> frozenset[int]:
    """Return the numbers of the pages whose new texts are edits.

    A wall or an error that a server answers for every page is frequent, or it is one text. Pages
    that shrank count as edits when they are few, each with a text that no other page got. All that
    wait are edits when together they are very few, unless two that shrank have one text. Up to
    three pages may become clones of a page that had its content before. ``asked``: the number of
    pages that the run asked. ``bodies``: the number of bodies that it read, theirs included.

    >>> pages = [Waiting(no, b"%d" % no, True, False, 0) for no in (1, 2, 3, 4)]
    >>> sorted(edits_among_waiting(pages[:3], asked=3, bodies=3))
    [1, 2, 3]
    >>> sorted(edits_among_waiting(pages, asked=399, bodies=399))
    []
    >>> alike = [Waiting(no, b"1", False, True, 0) for no in (1, 2)]
    >>> [len(edits_among_waiting(alike, asked=asked, bodies=9)) for asked in (200, 201)]
    [0, 2]

    Source: C19, ADR 37, 93.
    """
    edits = {page.no for page in pages if 0 < page.clones <= FEW}
    shrunk = [page for page in pages if page.shrank]
    texts = Counter(page.text for page in pages)
    if len({page.text for page in shrunk}) == len(shrunk):
        if len(pages) < MANY and EDITS * len(pages) < asked:
            return frozenset(page.no for page in pages)
        few = len(shrunk) <= FEW or EDITS * len(shrunk) <= bodies
        if few and all(texts[page.text] == 1 for page in shrunk):
            edits |= {page.no for page in shrunk if not page.repeated}
    return frozenset(edits)


def may_be_edits(pages: int, *, alike: int, size: int) -> bool:
    """Whether the pages that wait so far may turn out to be edits.

    ``alike``: the number of those that have the most frequent text. ``size``: bytes of their
    bodies, compressed.

    >>> may_be_edits(30, alike=19, size=4_000), may_be_edits(30, alike=20, size=4_000)
    (True, False)
    """
    return alike < MANY and pages <= MAX_WAITING and size <= MAX_WAITING_SIZE


def lowered_source(body: bytes) -> str:
    """Return a body in lower case and with one kind of quotes; it need not be UTF-8."""
    return body.decode(errors="replace").lower().replace("'", '"')


def page_outline(source: str) -> str:
    """Return the tags and the text of a page."""
    return _HIDDEN.sub(" ", source)

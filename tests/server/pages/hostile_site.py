"""A site whose every text tries to become markup, and what of it got into a page."""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from lxml.html import HtmlElement

from smartcrawl.model.documents import Image, Section
from tests.registry.build import Desk
from tests.server.pages.browsing import Visitor, parsed
from tests.site_server import Page, Site

WORD = "qzq"  #: in all that the site says
#: Runs a script, sends a request, or has htmx send one, wherever it becomes markup.
MARKUP = (
    f"{WORD}\"'><img src=/evil onerror=hit=1><script>hit=2</script>"
    '<b hx-get="/evil" hx-trigger="load">x</b><style>*{background:url(/evil)}</style>'
)
SCRIPT = f"javascript:hit=3//{WORD}"
TURNED = f"{WORD}\u202etxt.exe"
_LINKED = ("http", "https", "")
#: What pages themselves have: fields that search while typing, and parts that are asked anew.
_LIVE = re.compile("cron|q|progress|live-.*|live")


def fill(site: Site) -> None:
    """Give the site its pages."""
    text, attribute = escape(MARKUP), escape(MARKUP, quote=True)
    links = "".join(
        f'<li><a href="{escape(link)}">{text}</a>'
        for link in (SCRIPT, "/a?x=%22%3E%3Cscript%3Ehit=4%3C/script%3E", "/gone", "/old", "/x'\"")
    )
    image = f'<img src="/evil.png?{attribute}" alt="{attribute}" title="{attribute}" width="9">'
    body = (
        f"<html lang='\"><script>'><head><title>{text}</title>"
        f'<meta name="description" content="{attribute}">'
        f'<meta name="author" content="{attribute}"></head>'
        f"<body><main><h1>{text} {TURNED}</h1><p>{text} stands here. {WORD} again.</p>"
        f'<h2 id="{attribute}">{text}</h2><p>{WORD} {text}</p>{image}'
        f"<ul>{links}</ul></main></body></html>"
    )
    etag = f'"{MARKUP}"'.replace('"', "'")
    site.pages["/robots.txt"] = Page(
        f"User-agent: *\nDisallow: /secret{MARKUP}\n", content_type="text/plain"
    )
    site.pages["/"] = Page(body, etag=f'"{etag}"')
    site.pages["/a"] = Page(body.replace("again", "once more"), headers={"Server": MARKUP})
    site.pages["/gone"] = Page(body, status=410)
    site.pages["/old"] = Page(redirect=f"/a?{MARKUP}".replace(" ", "%20"))


def fill_registry(file: Path) -> None:
    """Write a registry as a crawl of such a site leaves it, without the crawl."""
    desk = Desk(file, source=WORD)
    desk.open()
    sections = (Section(1, MARKUP, f"{MARKUP} {TURNED}"), Section(2, TURNED, f"{WORD} {MARKUP}"))
    picture = Image(f"/evil.png?{MARKUP}", MARKUP, 9, 9, MARKUP)
    fields = {"sections": sections, "images": (picture,), "description": MARKUP, "author": MARKUP}
    for path in ("", "a?x=%22%3E%3Cscript%3Ehit=4%3C/script%3E", "x'\"<b>"):
        url = f"https://{WORD}.example/{path}"
        desk.index(url, title=MARKUP, document_fields=fields, etag=f'"{MARKUP}"', error=MARKUP)
    desk.seal(MARKUP)
    desk.close()


def seen_pages(visitor: Visitor, *starts: str, most: int = 60) -> Iterator[tuple[str, HtmlElement]]:
    """Yield the pages that links lead to, each with its path; those of other servers are none."""
    waiting, known = list(starts), set(starts)
    while waiting and len(known) < most:
        path = waiting.pop(0)
        answer = visitor.get(path)
        if "text/html" not in answer.headers.get("Content-Type", ""):
            continue
        page = parsed(answer)
        yield path, page
        for link in page.xpath("//a/@href"):
            parts = urlsplit(urljoin(f"http://localhost:8080{path}", link))
            if parts.netloc != "localhost:8080":
                continue
            to = f"{parts.path}?{parts.query}" if parts.query else parts.path
            if to not in known:
                known.add(to)
                waiting.append(to)


def injected(page: HtmlElement) -> list[str]:
    """What a text of the site has become in a page: elements, attributes, addresses."""
    found = []
    for element in page.iter():
        if not isinstance(element.tag, str):
            continue
        names = [name for name in element.attrib if name.startswith(("on", "style"))]
        is_asking = any(name.startswith("hx-") and name != "hx-disable" for name in element.attrib)
        if is_asking and not _LIVE.fullmatch(element.get("id", "")):
            names.append("hx-")
        found += [f"{element.tag} {name}" for name in names]
        for name in ("href", "src", "action", "hx-get"):
            address = element.get(name, "")
            if urlsplit(address).scheme not in _LINKED or WORD in urlsplit(address).scheme:
                found.append(f"{element.tag} {name}={address}")
        if element.tag in ("script", "img", "style") and not element.get("src", "").startswith(
            "/static/"
        ):
            found.append(element.tag)
        if element.tag not in ("title", "option", "textarea") and WORD in (element.text or ""):
            if not element.xpath("ancestor-or-self::*[@hx-disable]"):
                found.append(f"not under hx-disable: {element.tag}")
            if "\u202e" in element.text:
                found.append("a turned text")
    return found

"""A site of some 140 pages for workers to share: cycles, clones, detours, and what goes away."""

import random
from dataclasses import replace

from tests.site_server import Page, Site, html

SECTIONS, PAGES = 10, 11
CLONES = ("/c", "/cc", "/ccc", "/cccc")  #: the one with the shortest address is the original
#: Seconds until a page answers: a run is long enough to be disturbed.
DELAY = 0.02
_CLONE = "the same whale swims by on every page of this kind " * 6


def page(title: str, *links: str, text: str = "", head: str = "") -> Page:
    return Page(html(title, *links, text=text, head=head))


def build(site: Site, delay: float = DELAY) -> None:
    """What the first run finds."""
    sections = [f"/s{n}/" for n in range(SECTIONS)]
    extras = ["/dir", "/moved", "/chain/0", "/noindex", "/forbidden", "/missing", "/print", *CLONES]
    site.pages["/robots.txt"] = Page(
        f"User-agent: *\nDisallow: /forbidden\nSitemap: {site.url('/sitemap.xml')}\n"
    )
    listed = "".join(f"<url><loc>{site.url(f'/listed/{n}')}</loc></url>" for n in range(6))
    site.pages["/sitemap.xml"] = Page(
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{listed}</urlset>',
        content_type="application/xml",
    )
    site.pages["/"] = page("Home", *sections, *extras, text="welcome")
    for n, section in enumerate(sections):
        below = [f"{section}{k}" for k in range(PAGES)]
        site.pages[section] = page(f"Section {n}", *below, f"{section}missing", "/")
        for k, path in enumerate(below):
            site.pages[path] = _leaf(n, k)
    for n in range(6):
        site.pages[f"/listed/{n}"] = page(f"Listed {n}", f"/s{n}/", text=f"on the map {n}")
        site.pages[f"/deep/{n}"] = page(f"Deep {n}", f"/deep/{n + 1}", text=f"deep down {n}")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = page("Directory", "child", "/deep/0", text="a directory")
    site.pages["/dir/child"] = page("Child", "/s0/3", text="a child")
    site.pages["/moved"] = Page(redirect="/dir/child", status=302)
    for n in range(3):
        site.pages[f"/chain/{n}"] = Page(redirect=f"/chain/{n + 1}")
    site.pages["/chain/3"] = page("End of a chain", "/s1/1", text="arrived")
    for path in CLONES:
        site.pages[path] = page("Whale", "/", "/s0/0", text=_CLONE)
    hidden = '<meta name="robots" content="noindex">'
    site.pages["/noindex"] = page("Hidden", "/behind", text="unseen", head=hidden)
    site.pages["/behind"] = page("Behind", text="behind what is hidden")
    aside = '<link rel="canonical" href="/s4/4">'
    site.pages["/print"] = page("Print", "/s4/4", text="to be printed", head=aside)
    _slow(site, delay)


def _slow(site: Site, delay: float) -> None:
    for path, found in site.pages.items():
        if isinstance(found, Page) and found.redirect is None:
            site.pages[path] = replace(found, delay=delay)


def _leaf(n: int, k: int, *more: str, text: str = "") -> Page:
    """One page of a section: it leads around in circles."""
    links = (f"/s{(n + 1) % SECTIONS}/{k}", f"/s{n}/{(k + 5) % PAGES}", *more)
    return page(f"Page {n}.{k}", *links, text=text or f"page {k} of section {n}")


def edit(site: Site, dice: random.Random, delay: float = DELAY) -> None:
    """Let some pages change, some go, some come, as the dice fall."""
    number = dice.randrange(1_000_000)
    for _ in range(8):
        n, k = dice.randrange(SECTIONS), dice.randrange(7)
        news = f"/news/{dice.randrange(1_000_000)}"
        site.pages[f"/s{n}/{k}"] = _leaf(n, k, news, text=f"edited {number}")
        site.pages[news] = page(f"News {news}", "/", text=f"news of {number}")
    n = dice.randrange(SECTIONS)
    site.pages[f"/s{n}/8"] = Page("gone", status=410)
    site.pages[f"/s{(n + 3) % SECTIONS}/9"] = Page(redirect="/dir/child")
    site.pages[dice.choice(CLONES)] = page("No clone any more", "/s0/0", text=f"unique {number}")
    # What only this page leads to is an orphan from now on.
    site.pages["/dir/"] = page("Directory", "child", text=f"edited directory {number}")
    site.pages["/behind"] = page("Behind", f"/fresh/{number}", text=f"seen {number}")
    site.pages[f"/fresh/{number}"] = page("Fresh", text=f"fresh {number}")
    _slow(site, delay)

"""The site about lamps that README, the how-to pages and the questions crawl."""

from tests.site_server import Page

#: Path, title, text, and the links of a page.
_PAGES: tuple[tuple[str, str, str, str], ...] = (
    (
        "/",
        "Lamps",
        "Everything about lamps, from the first one to the last fuse.",
        "guide/first-lamp.html guide/trouble.html guide/fuses.html guide/colours.html"
        " reference/settings.html reference/commands.html news/2026.html about.html",
    ),
    (
        "/guide/first-lamp.html",
        "Your first lamp",
        "Screw the lamp in, give it a name, and switch it on. A lamp without a name stays dark.",
        "../ trouble.html",
    ),
    (
        "/guide/trouble.html",
        "When something is wrong",
        "If the lamp stays dark and has no name, give it one; if it has one, its fuse may be"
        " broken: replace the fuse and switch the lamp off and on.",
        "../ fuses.html",
    ),
    (
        "/guide/fuses.html",
        "Fuses",
        "A lamp takes a fuse of 2 A; two spare ones are in the lid of the box.",
        "../",
    ),
    (
        "/guide/colours.html",
        "Colours",
        "A lamp glows amber, teal or violet. The colour is a setting.",
        "../reference/settings.html",
    ),
    (
        "/reference/settings.html",
        "Settings",
        "LANTERN_FOLDER names the folder in which a lamp keeps its state.",
        "../",
    ),
    (
        "/reference/commands.html",
        "Commands",
        "lamp on, lamp off, lamp name: three commands are all there is.",
        "settings.html",
    ),
    (
        "/news/2026.html",
        "News of 2026",
        "This year lamps learnt a fourth colour, which has no name so far.",
        "../",
    ),
    (
        "/about.html",
        "About",
        "These pages are an example. They belong to a manual and are served to its tests.",
        "./",
    ),
    ("/hidden.html", "A hidden lantern", "No page leads to this lantern.", ""),
)


def pages() -> dict[str, Page | str | bytes]:
    """Return the pages by path: nine that are linked, and one that is not."""
    return {path: _html(title, text, links.split()) for path, title, text, links in _PAGES}


def _html(title: str, text: str, links: list[str]) -> str:
    nav = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return (
        f'<!doctype html><html lang="en"><head><title>{title}</title></head><body>'
        f"<nav>{nav}</nav><main><h1>{title}</h1><p>{text}</p></main></body></html>"
    )

"""Registries of pages with words, made without a crawl."""

import random
from pathlib import Path

from smartcrawl.model.documents import Section
from tests.registry.build import Desk

BASE = "https://docs.example.com/"
SECTIONS = 8  #: of a page, each a chunk
AT_ONCE = 50  #: pages of a batch
SYLLABLES = ("lam fus ber tol gri sen pad mon", "a e i o u ar en", "lin to ver mex dok rail sum")
WORDS = [a + b + c for a in SYLLABLES[0].split() for b in SYLLABLES[1].split()
         for c in SYLLABLES[2].split()]  # fmt: skip
RARER = [1 / (place + 1) for place in range(len(WORDS))]


def fill(folder: Path, pages: int, chance: random.Random) -> None:
    """Write the registry."""
    desk = Desk(folder / "registry.db")
    desk.open()
    for start in range(0, pages, AT_ONCE):
        urls = [f"{BASE}{no}" for no in range(start, min(start + AT_ONCE, pages))]
        desk.add(*urls)
        desk.write(*(page(desk, url, chance) for url in urls))
    desk.seal()
    desk.close()


def page(desk: Desk, url: str, chance: random.Random):
    """Return the visit of a page."""

    def some(count: int) -> str:
        return " ".join(chance.choices(WORDS, RARER, k=count))

    sections = tuple(Section(1 + no % 3, some(3), some(120)) for no in range(SECTIONS))
    return desk.visit(url, title=some(3), document_fields={"sections": sections})

"""Pages whose right text is known: where they lie, and how a reading of them is rated.

Three kinds of gold: strings that belong to the text of a page and strings that do not; the whole
article of a page; the element in which a generator of documentation puts what its authors wrote.
"""

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import Final, NamedTuple

import cssselect
from lxml import etree, html

Read = Callable[[bytes], str]  #: the text of a page

SHINGLE: Final = 4  #: words, as article-extraction-benchmark compares texts
_WORD: Final = re.compile(r"\w+")
#: Elements without text that people read; permalinks are no words of a heading.
_NO_TEXT: Final = "script, style, template, noscript, svg, a.headerlink, a.header-anchor, button"


class Strings(NamedTuple):
    """A page with strings that belong to its text, and strings that are boilerplate."""

    name: str
    body: bytes
    right: tuple[str, ...]
    wrong: tuple[str, ...]


class Whole(NamedTuple):
    """A page with all of its right text."""

    name: str
    body: bytes
    text: str


class Score(NamedTuple):
    """How much of the right text was read, and how much of what was read is right."""

    recall: float
    precision: float

    @property
    def f1(self) -> float:
        """Their harmonic mean."""
        both = self.recall + self.precision
        return 2 * self.recall * self.precision / both if both else 0.0


def strings_of(folder: Path) -> Iterator[Strings]:
    """Yield the pages of trafilatura's evaluation, of which ``folder`` is a checkout."""
    tests = folder / "tests"
    for item in json.loads((tests / "evaldata.json").read_text(encoding="utf-8")).values():
        path = next(
            (found for sub in ("cache", "eval") if (found := tests / sub / item["file"]).is_file()),
            None,
        )
        if path is not None:
            right, wrong = (tuple(map(one_line, item[key])) for key in ("with", "without"))
            yield Strings(item["file"], path.read_bytes(), right, wrong)


def articles_of(folder: Path) -> Iterator[Whole]:
    """Yield the pages of article-extraction-benchmark, of which ``folder`` is a checkout."""
    known = json.loads((folder / "ground-truth.json").read_text(encoding="utf-8"))
    for name, item in known.items():
        path = folder / "html" / f"{name}.html.gz"
        if path.is_file():
            yield Whole(name, gzip.decompress(path.read_bytes()), item["articleBody"])


def written_of(paths: Iterable[Path], keep: str, drop: str = "") -> Iterator[Whole]:
    """Yield generated pages with the text of their elements ``keep`` without those of ``drop``."""
    for path in paths:
        body = path.read_bytes()
        text = element_text(body, keep, drop)
        if len(words(text)) >= SHINGLE:
            yield Whole(path.name, body, text)


def element_text(body: bytes, keep: str, drop: str = "") -> str:
    """Return the text of the elements of a page that a selector keeps; blocks are apart."""
    tree = html.document_fromstring(body, parser=html.HTMLParser(encoding=_charset(body)))
    for element in _selected(tree, f"{_NO_TEXT}, {drop}" if drop else _NO_TEXT):
        if element.getparent() is not None:
            element.drop_tree()
    chosen = _selected(tree, keep)
    inner = {id(one) for outer in chosen for one in outer.iterdescendants()}
    return "\n".join(_text(one) for one in chosen if id(one) not in inner)


_INLINE: Final = frozenset(
    re.split(
        r"\s+",
        "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark q s samp "
        "small span strike strong sub sup time tt u var wbr",
    )
)


def _text(element: html.HtmlElement) -> str:
    parts: list[str] = []
    for event, one in etree.iterwalk(element, events=("start", "end", "comment")):
        if event == "comment":
            parts.append(one.tail or "")
        elif event == "start":
            parts += ("" if one.tag in _INLINE else "\n", one.text or "")
        elif one is not element:
            parts += ("" if one.tag in _INLINE else "\n", one.tail or "")
    return "".join(parts)


def _selected(tree: html.HtmlElement, selector: str) -> list[html.HtmlElement]:
    return tree.xpath(cssselect.HTMLTranslator().css_to_xpath(selector))


def _charset(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def one_line(text: str) -> str:
    """Return a text with single spaces."""
    return " ".join(text.split())


def words(text: str) -> list[str]:
    """Return the words of a text."""
    return _WORD.findall(text.lower())


def rated_strings(pages: Sequence[Strings], read: Read) -> tuple[float, float]:
    """Return the share of right strings that are read, and of wrong strings that are."""
    right = wrong = all_right = all_wrong = 0
    for page in pages:
        text = one_line(read(page.body))
        right += sum(string in text for string in page.right)
        wrong += sum(string in text for string in page.wrong)
        all_right += len(page.right)
        all_wrong += len(page.wrong)
    return right / all_right, wrong / all_wrong


def rated_articles(pages: Sequence[Whole], read: Read) -> Score:
    """Return the score of articles by their shingles, as article-extraction-benchmark has it."""
    return _mean([_compared(page.text, read(page.body), SHINGLE) for page in pages])


def rated_words(pages: Sequence[Whole], read: Read) -> Score:
    """Return the score of generated pages by their words."""
    return _mean([_compared(page.text, read(page.body), 1) for page in pages])


def compared_words(right: str, found: str) -> Score:
    """Return how much of the words of a right text is in another one, and of that in the right."""
    return _compared(right, found, 1)


def compared_order(right: str, found: str) -> Score:
    """Return the same for runs of four words, which are those of a right text in its order only."""
    return _compared(right, found, SHINGLE)


def _mean(scores: Sequence[Score]) -> Score:
    return Score(mean(one.recall for one in scores), mean(one.precision for one in scores))


def _compared(right: str, found: str, size: int) -> Score:
    wanted, given = _shingles(right, size), _shingles(found, size)
    common = (wanted & given).total()
    return Score(
        common / wanted.total() if wanted else 1.0, common / given.total() if given else 0.0
    )


def _shingles(text: str, size: int) -> Counter[tuple[str, ...]]:
    found = words(text)
    size = min(size, len(found)) or 1
    return Counter(zip(*(found[at:] for at in range(size)), strict=False))

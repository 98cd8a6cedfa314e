"""The static site of the benchmarks: same parameters, same bytes, same modification times.

A page has 29.3 KB, 60 links (of those in the text every seventh with a #fragment), about 20 KB of
text in 25 sections and about 410 elements. Words follow Zipf's law over a vocabulary of 4,000, so
that a full-text index gets common and rare ones; no two pages have the same text.

    python bench/site.py ROOT PAGES
"""

import argparse
import json
import os
import random
import shutil
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path

_MARKER = ".smartcrawl-site.json"
_PER_DIRECTORY = 100
_CHILDREN = 10  # tree links of a page: every page is reached in log10(pages) steps
_NEAR = 30  # pages to both sides that are linked from the text
_SECTIONS = 25
_PARAGRAPHS = 4  # a section
_WORDS = 31  # a paragraph
_INLINE = ("em", "strong", "code", "em", "strong", "code", "em")  # in a section
_VOCABULARY = 4_000
_TABLE = 65_536  # entries, in which a word stands as often as Zipf's law wants
_FIRST_MODIFIED = 1_700_000_000  # seconds since 1970; page n is n seconds younger
_EDITED_AFTER = 20_000_000  # seconds

_COMMON = """the of and to in a is that for it as was with be by on not he this are or his from at
which but have an had they you were their one all we can her has there been if more when will would
who so no out up into do any your what than them only other time some could these two may then
first now such like my over its our made about after also did many must before through years where
much way well should because each just those people how too little state good very make world still
own see men work long here get both between life being under never day same another know while last
might us great old year off come since against go came right used take three"""
_ONSETS = "b c d f g h l m n p r s t v w b c d l m n p r s t ch sh th br cl cr dr gr pl pr st tr"
_VOWELS = "a e i o u a e i o u a e i o u ai ea ee ie ou"
_CODAS = "- - - - d l m n r s t ck ld mp nd ng nt rd rt ss st"
_ENDINGS = "- - - - - - - - al ed en er ful ing ion ity ly ment ness ous s s"
_STYLE = """<style>
body { margin: 0; font: 16px/1.5 "Helvetica Neue", Arial, sans-serif; color: #222; }
header, footer { padding: 1rem 2rem; background: #f4f4f4; }
nav ul { display: flex; gap: 1rem; margin: 0; padding: 0.5rem 2rem; list-style: none; }
main { max-width: 48rem; margin: 0 auto; padding: 0 1rem; }
section { border-top: 1px solid #ddd; }
a.reference { color: #06c; text-decoration: none; }
code { font-family: monospace; background: #eee; }
</style>"""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The inputs of every byte of a site; `format` counts the changes of this file's output."""

    pages: int
    links: int
    seed: int
    format: int = 2


def build(root: Path, pages: int, links: int = 60, seed: int = 1) -> None:
    """Write the site to `root`, unless it is there already; another site there is replaced.

    A directory that was not written by this function is refused.
    """
    if pages < 1 or links < 2 * _CHILDREN:
        raise ValueError(f"a site needs a page and {2 * _CHILDREN} links a page")
    parameters = Parameters(pages, links, seed)
    marker = root / _MARKER
    if marker.exists():
        if json.loads(marker.read_text()) == asdict(parameters):
            return
        shutil.rmtree(root)
    elif root.exists() and any(root.iterdir()):
        raise FileExistsError(f"{root} holds something that is no site of this program")
    part = root.with_name(f"{root.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    words = _word_table(seed)
    for number in range(pages):
        file = part / path(number)
        if number == 0 or number % _PER_DIRECTORY == 0:
            (part / path(number + 1)).parent.mkdir(exist_ok=True)
        file.write_text(_page(number, parameters, words))
        modified = _FIRST_MODIFIED + number
        os.utime(file, (modified, modified))
    (part / _MARKER).write_text(json.dumps(asdict(parameters)))
    os.utime(part / _MARKER, (_FIRST_MODIFIED, _FIRST_MODIFIED))
    part.replace(root)


def edited(root: Path, target: Path, share: float) -> int:
    """Write to `target` the site of `root` with a share of its pages edited; return how many.

    An edited page has one more paragraph, the same links and a later modification time. Which
    pages those are, and what they say, is always the same. The others are hard links.
    """
    parameters = Parameters(**json.loads((root / _MARKER).read_text()))
    rng = random.Random(f"edited {parameters.seed} {share}")
    numbers = set(rng.sample(range(parameters.pages), round(share * parameters.pages)))
    marker, text = target / _MARKER, json.dumps(asdict(parameters) | {"edited": share})
    if marker.exists() and marker.read_text() == text:
        return len(numbers)
    shutil.rmtree(target, ignore_errors=True)
    words = _word_table(parameters.seed)
    for number in range(parameters.pages):
        file, copy = root / path(number), target / path(number)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if number not in numbers:
            os.link(file, copy)
            continue
        text = _sentences(rng.choices(words, k=_WORDS))
        copy.write_text(file.read_text().replace("</main>", f"<p>{text}</p>\n</main>"))
        modified = _FIRST_MODIFIED + number + _EDITED_AFTER
        os.utime(copy, (modified, modified))
    marker.write_text(text)
    return len(numbers)


def path(number: int) -> str:
    """The path of a page below the root; page 0 is the index."""
    if number == 0:
        return "index.html"
    return f"d{number // _PER_DIRECTORY:04}/p{number:06}.html"


def vocabulary(seed: int) -> list[str]:
    """Words by falling frequency: the common ones of English, then made-up ones."""
    rng = random.Random(f"vocabulary {seed}")
    onsets, vowels = _ONSETS.split(), _VOWELS.split()
    codas, endings = ([part.strip("-") for part in each.split()] for each in (_CODAS, _ENDINGS))
    words = dict.fromkeys(_COMMON.split())
    while len(words) < _VOCABULARY:
        syllables = rng.choice((1, 1, 2, 2, 2, 3))
        word = "".join(rng.choice(onsets) + rng.choice(vowels) for _ in range(syllables))
        words[word + rng.choice(codas) + rng.choice(endings)] = None
    return list(words)


def _word_table(seed: int) -> list[str]:
    words = vocabulary(seed)
    weights = [1 / (rank + 2.7) for rank in range(len(words))]
    scale = _TABLE / sum(weights)
    return [
        word
        for word, weight in zip(words, weights, strict=True)
        for _ in range(max(1, round(weight * scale)))
    ]


def _page(number: int, site: Parameters, table: list[str]) -> str:
    rng = random.Random(f"{site.seed} {number}")
    title = _title(rng, table)
    navigation = _navigation(number, site.pages)
    in_text = _text_links(rng, number, site, site.links - len(navigation))
    menu = "".join(f'<li><a href="{_href(number, n)}">{text}</a></li>' for n, text in navigation)
    sections = [[] for _ in range(_SECTIONS)]
    for position, link in enumerate(in_text):
        sections[position % _SECTIONS].append(link)
    body = "\n".join(
        _section(rng, table, order, links) for order, links in enumerate(sections, start=1)
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="{escape(_sentence(rng, table, 16))}">
<title>{title} - Page {number}</title>
{_STYLE}
</head>
<body>
<header><p>A site of {site.pages} pages</p></header>
<nav><ul>{menu}</ul></nav>
<main>
<h1>{title}</h1>
{body}
</main>
<footer><p>Page {number} of {site.pages}</p></footer>
</body>
</html>
"""


def _navigation(number: int, pages: int) -> list[tuple[int, str]]:
    start = number - number % _PER_DIRECTORY
    targets = {
        "Home": 0,
        "Up": (number - 1) // _CHILDREN if number else 0,
        "Start": min(start or 1, pages - 1),
        "Previous": (number - 1) % pages,
        "Next": (number + 1) % pages,
        "Chapter before": (start - _PER_DIRECTORY) % pages,
        "Chapter after": (start + _PER_DIRECTORY) % pages,
    }
    return [(target, text) for text, target in targets.items()]


def _text_links(rng: random.Random, number: int, site: Parameters, count: int) -> list[str]:
    """The children in the tree, then as many neighbours as pages of anywhere; some twice."""
    first = number * _CHILDREN + 1
    targets = list(range(first, min(first + _CHILDREN, site.pages)))
    near = range(max(0, number - _NEAR), min(number + _NEAR, site.pages))
    while len(targets) < count:
        targets.append(rng.choice(near) if len(targets) % 2 else rng.randrange(site.pages))
    rng.shuffle(targets)
    return [
        _href(number, target) + (f"#s{rng.randint(1, _SECTIONS)}" if position % 7 == 0 else "")
        for position, target in enumerate(targets)
    ]


def _href(number: int, target: int) -> str:
    if target == 0:
        return "../" if number else "./"  # "index.html" would be a second URL of the same page
    if number == 0:
        return path(target)
    if target // _PER_DIRECTORY == number // _PER_DIRECTORY:
        return path(target).partition("/")[2]
    return f"../{path(target)}"


def _section(rng: random.Random, table: list[str], order: int, links: list[str]) -> str:
    paragraphs = [rng.choices(table, k=_WORDS) for _ in range(_PARAGRAPHS)]
    wraps = [f"<{element}>{{}}</{element}>" for element in _INLINE]
    wraps += [f'<a class="reference" href="{link}">{{}}</a>' for link in links]
    # Never two at the same word, nor at the ends of a sentence.
    places = rng.sample([(p, w) for p in range(_PARAGRAPHS) for w in range(1, 29, 2)], len(wraps))
    for (paragraph, place), wrap in zip(places, wraps, strict=True):
        paragraphs[paragraph][place] = wrap.format(paragraphs[paragraph][place])
    text = "\n".join(f'<p class="text">{_sentences(words)}</p>' for words in paragraphs)
    heading = f'<h2 class="title">{_title(rng, table)}</h2>'
    return f'<section id="s{order}" class="part">\n{heading}\n{text}\n</section>'


def _sentences(words: list[str]) -> str:
    half = len(words) // 2
    parts = words[:half], words[half:]
    return " ".join(f"{first[:1].upper()}{first[1:]} {' '.join(rest)}." for first, *rest in parts)


def _sentence(rng: random.Random, table: list[str], words: int) -> str:
    return f"{' '.join(rng.choices(table, k=words)).capitalize()}."


def _title(rng: random.Random, table: list[str]) -> str:
    return " ".join(rng.choices(table, k=4)).title()


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the static site of the benchmarks.")
    parser.add_argument("root", type=Path)
    parser.add_argument("pages", type=int)
    parser.add_argument("--links", type=int, default=60, help="links a page")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    build(arguments.root, arguments.pages, arguments.links, arguments.seed)


if __name__ == "__main__":
    main()

"""Whether the pages of a template need a browser: samples that were read both ways, compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from hashlib import blake2b
from typing import Final, NamedTuple

MOST_TEMPLATES: Final = 8  #: of a host; further ones are one
SAMPLES: Final = 3  #: pages of a template
ENOUGH: Final = 2  #: samples that agree
SHARE: Final = 10  #: a rendering brings more than one word in so many
MOST_LINES: Final = 400  #: of a sample; those with the most words are kept
FEW_WORDS: Final = 20  #: a page with fewer shows nothing
_DIGEST: Final = 8  #: bytes
_REST: Final = "*"  #: template of the pages that are in none of the others


class RenderMode(StrEnum):
    """Whether a source's pages are shown by a browser (key ``render``)."""

    NO = "no"
    AUTO = "auto"
    ALWAYS = "always"


class Need(IntEnum):
    """Whether the pages of a template need a browser."""

    OPEN = 0
    PLAIN = 1
    NEEDED = 2


class ReadBy(IntEnum):
    """How a page is read in this run."""

    PLAIN = 0  #: as its server sends it
    SHOWN = 1  #: as a browser shows it
    SAMPLED = 2  #: both ways, to compare
    WAITS = 3  #: as the samples of its template decide


#: Ways that need the document itself.
WITH_BROWSER: Final = frozenset({ReadBy.SHOWN, ReadBy.SAMPLED})


class Sample(NamedTuple):
    """What a browser brought to one page."""

    words: int  #: of the rendering
    lines: Mapping[bytes, int]  #: digests of lines that have new words -> how many
    links: frozenset[bytes]  #: digests of links in scope that the document lacks
    refused: tuple[str, ...] = ()  #: hosts whose data it did not get


def sampled_template(template: str, host: str, known: Collection[str]) -> str:
    """Return the template that a page counts for.

    ``known``: those of its host that have a page. Those beyond ``MOST_TEMPLATES`` are one.
    """
    if template in known or len(known) < MOST_TEMPLATES - 1:
        return template
    return f"{host} {_REST}"


def word_digest(text: str) -> bytes:
    """Return the digest of a line or link, by which samples are compared."""
    return blake2b(text.encode(errors="surrogatepass"), digest_size=_DIGEST).digest()


def sample_of(plain: str, shown: str, links: Iterable[str], refused: Iterable[str] = ()) -> Sample:
    """Return what the text of a rendering brings to that of the document.

    ``links``: those in scope that only the rendering has.
    """
    words = shown.split()
    new = Counter(words) - Counter(plain.split())
    lines: dict[bytes, int] = {}
    for line in shown.splitlines():
        found = Counter(line.split()) & new
        if found:
            new -= found
            key = word_digest(" ".join(line.split()))
            lines[key] = lines.get(key, 0) + found.total()
    most = sorted(lines.items(), key=lambda item: (-item[1], item[0]))[:MOST_LINES]
    return Sample(
        len(words), dict(most), frozenset(map(word_digest, links)), tuple(sorted({*refused}))
    )


def needs_browser(sample: Sample, others: Iterable[Sample]) -> bool | None:
    """Whether a page needs a browser; None: hosts were refused, and that decides nothing.

    What other samples of the host bring as well, such as a cookie banner, does not count.
    """
    lines: set[bytes] = set()
    links: set[bytes] = set()
    for other in others:
        lines |= other.lines.keys()
        links |= other.links
    fresh = sum(count for line, count in sample.lines.items() if line not in lines)
    if fresh * SHARE > sample.words or sample.links - links:
        return True
    return None if sample.refused else False


def template_need(verdicts: Sequence[bool | None]) -> Need:
    """Return the need of a template by those of its samples: two of three decide."""
    if verdicts.count(True) >= ENOUGH:
        return Need.NEEDED
    return Need.PLAIN if verdicts.count(False) >= ENOUGH else Need.OPEN


def page_read_by(need: Need, own: bool | None, *, is_sampled: bool, has_turn: bool) -> ReadBy:
    """Return how a page is read.

    ``own``: what its own sample says, ``is_sampled``: whether it has one. ``has_turn``: whether its
    template may have one more sample.
    """
    match need:
        case Need.NEEDED:
            return ReadBy.SHOWN
        case Need.PLAIN:
            return ReadBy.PLAIN
        case Need.OPEN if is_sampled:
            return ReadBy.SHOWN if own else ReadBy.PLAIN
    return ReadBy.SAMPLED if has_turn else ReadBy.WAITS


def is_empty_shell(*, words: int, scripts: int, links: int) -> bool:
    """Whether a new seed shows nothing without a browser: scripts, few words and no link."""
    return scripts > 0 and words < FEW_WORDS and links == 0

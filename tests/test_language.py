"""The countable part of plain technical English, in messages and manuals.

``python tests/test_language.py PATH …`` lists the places of single files or folders.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.modules import CODE, ROOT, name, parsed, strings

MANUALS = sorted(
    {
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    }
)
LONGEST = 35  #: words of a sentence

#: Words that stand for another one, and what to write instead.
WORDS = (
    (re.compile(r"\b_?(?:told|tell|tells|telling|teller)\b", re.I), "log, report, record, format"),
    (re.compile(r"\b(?:nobody|somebody|whoever)\b", re.I), "name the worker, process or operator"),
    (re.compile(r"\bwhat (?:is|was|are|were) (?:held|known|said|left|over|there)\b", re.I), "noun"),
    (re.compile(r"\b(?:lies|lie|lay) in\b", re.I), "is in, is stored in"),
)
#: Numbers of requirements, invariants and attacks.
NUMBER = re.compile(r"\b(?:R[0-4]|RD|RP|INV|ATT|[MUESG])-\d+\b")
#: Pages that a user reads to use the program.
FOR_USERS = [
    "README.md", "docs/README.md", "docs/cli.md", "docs/settings.md", "docs/tutorial.md",
    "docs/faq.md", "docs/how-it-works.md", "docs/limits.md", "docs/exit-status.md",
    "docs/grow.md", "docs/sources.md", "docs/compared.md",
    *(
        name(path)
        for folder in ("docs/howto", "docs/operations")
        for path in sorted((ROOT / folder).glob("*.md"))
    ),
]  # fmt: skip


class Finding(NamedTuple):
    """One place, and the rule that it breaks."""

    path: Path
    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return (
            f"{self.path.relative_to(ROOT)}:{self.line}: {self.text.strip()[:120]}  <- {self.why}"
        )


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page; tables and fenced code are left out."""
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    plain = []
    for line in text.splitlines():
        begins = not line.strip() or line.lstrip().startswith(("- ", "* "))
        skip = line.lstrip().startswith(("|", "#"))
        plain.append("" if skip else f"\n\n{line}" if begins else line)
    for paragraph in "\n".join(plain).split("\n\n"):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*(\[\"])", " ".join(paragraph.split()))


def in_words(path: Path, line: int, text: str) -> Iterator[Finding]:
    """Yield the words of a text that stand for another one."""
    for pattern, why in WORDS:
        if pattern.search(text):
            yield Finding(path, line, text, why)


def in_messages(path: Path) -> Iterator[Finding]:
    """Yield the places in the messages of a module; docstrings and comments are free."""
    for line, text in strings(parsed(path)):
        yield from in_words(path, line, text)
        if NUMBER.search(text):
            yield Finding(path, line, text, "no requirement in a message")


def in_manual(path: Path) -> Iterator[Finding]:
    """Yield the places of a page; code, and names in backticks, may say what they like."""
    text = path.read_text(encoding="utf-8")
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith("    "):
            yield from in_words(path, number, re.sub(r"`[^`]*`", "`code`", line))
    if path == ROOT / "README.md":
        for sentence in sentences(text):
            if len(sentence.split()) > LONGEST:
                yield Finding(path, 0, sentence, f"more than {LONGEST} words")
    if path.relative_to(ROOT).as_posix() in FOR_USERS:
        for number in NUMBER.findall(text):
            yield Finding(path, 0, number, "no requirement on a page for users")


def findings(path: Path) -> list[Finding]:
    """Return the places of a file."""
    return list(in_messages(path) if path.suffix == ".py" else in_manual(path))


def test_messages_are_written_in_plain_english():
    assert not [str(found) for path in CODE for found in findings(path)]


def test_pages_are_written_in_plain_english():
    assert not [str(found) for path in MANUALS for found in findings(path)]


def test_the_checks_find_what_they_look_for(monkeypatch, tmp_path: Path):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    module, page = tmp_path / "module.py", tmp_path / "README.md"
    module.write_text(
        '"""Whoever is told."""\n\n#: nobody\nA = f"Tell {1} it: R1-02"\n\n\n'
        'def b():\n    """Nobody."""\n    return ("it is "\n            "what is left")\n'
    )
    page.write_text("# Nobody\n\n`told` it lies in\n\n```\ntold\n```\n\n" + "word " * 36)
    manual = tmp_path / "docs" / "faq.md"
    manual.write_text("A `ATT-7` here.\n")

    assert [(found.line, found.why) for found in findings(module)] == [
        (4, "log, report, record, format"),
        (4, "no requirement in a message"),
        (9, "noun"),
    ]
    assert [found.why for found in findings(page)] == [
        "name the worker, process or operator", "is in, is stored in", "more than 35 words",
    ]  # fmt: skip
    assert [found.text for found in findings(manual)] == ["ATT-7"]


if __name__ == "__main__":
    places = [Path(word).resolve() for word in sys.argv[1:]] or [*CODE, *MANUALS]
    files = [
        file
        for place in places
        for file in (
            sorted([*place.rglob("*.py"), *place.rglob("*.md")]) if place.is_dir() else [place]
        )
    ]
    found = [one for file in files for one in findings(file)]
    print(*found, sep="\n")
    print(len(found), "places")

"""The countable part of plain technical English, in code, docstrings, messages and manuals.

``python tests/test_language.py PATH …`` lists the places of single files or folders.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.modules import CODE, ROOT, name, strings_of_all

#: docs/coverage.md is made of the names of tests.
MANUALS = sorted(
    {
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(ROOT / "docs").rglob("*.md"),
    }
    - {ROOT / "docs/coverage.md"}
)
LONGEST = 35  #: words of a sentence

#: Words that stand for another one, and what to write instead.
WORDS = (
    (re.compile(r"\b_?(?:told|tell|tells|telling|teller)\b", re.I), "log, report, record, format"),
    (re.compile(r"\b(?:nobody|somebody|whoever)\b", re.I), "name the worker, process or operator"),
    (re.compile(r"\bwhat (?:is|was|are|were) (?:held|known|said|left|over|there)\b", re.I), "noun"),
    (re.compile(r"\b(?:lies|lie|lay) in\b", re.I), "is in, is stored in"),
)
#: First lines of docstrings that begin with a clause where a noun stands ready.
CLAUSE = re.compile(
    r"(?:(?:Return|Yield|Say|Note|Whether|How|Read|Write|Take|Make|Do|Give) )?"
    r"(?:what|who|whom|whose|whoever|whatever)\b|(?:How|That|Where|Why|Of) ",
    re.I,
)
#: Comments about a definition that need the line above them to be understood.
HALF = re.compile(r"#: (?:of these|of them|and |with |from |in which|by which|likewise)")
#: Numbers of requirements, invariants and attacks.
NUMBER = re.compile(r"\b(?:R[0-4]|RD|RP|INV|ATT|[MUESG])-\d+\b")
#: Places that may stay, each a piece of its line.
ALLOWED: tuple[str, ...] = (
    ".tell()",  # the position in a file
)


class Finding(NamedTuple):
    """One place, and the rule that it breaks."""

    path: Path
    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"{name(self.path)}:{self.line}: {self.text.strip()[:120]}  <- {self.why}"


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text; tables, doctests and fenced code are left out."""
    text = re.sub(r"```.*?```", " ", text, flags=re.S)
    plain, in_test = [], False
    for line in text.splitlines():
        in_test = line.lstrip().startswith(">>>") or (in_test and bool(line.strip()))
        skip = in_test or line.startswith("    >>>") or line.lstrip().startswith(("|", "#"))
        begins = not line.strip() or line.lstrip().startswith(("- ", "* ", "Source:", "Raises:"))
        plain.append("" if skip else f"\n\n{line}" if begins else line)
    for paragraph in "\n".join(plain).split("\n\n"):
        yield from re.split(r"(?<=[.!?:;])\s+(?=[A-Z`*(\[\"])", " ".join(paragraph.split()))


def in_code(path: Path) -> Iterator[Finding]:
    """Yield the places of a module."""
    source = path.read_text(encoding="utf-8")
    for number, line in enumerate(source.splitlines(), 1):
        for pattern, why in WORDS:
            if pattern.search(line) and not any(piece in line for piece in ALLOWED):
                yield Finding(path, number, line, why)
    for number, text in docstrings(ast.parse(source)):
        first = text.splitlines()[0]
        if CLAUSE.match(first):
            yield Finding(path, number, first, "begin with a verb or a noun")
        for sentence in sentences(text):
            if len(sentence.split()) > LONGEST:
                yield Finding(path, number, sentence, f"more than {LONGEST} words")
    if not HALF.search(source):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and HALF.match(token.string):
            yield Finding(path, token.start[0], token.string, "a sentence of its own")


def in_manual(path: Path) -> Iterator[Finding]:
    """Yield the places of a page; code, and names in backticks, may say what they like."""
    text = path.read_text(encoding="utf-8")
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.startswith("```")
        if fenced or line.startswith("    "):
            continue
        plain = re.sub(r"`[^`]*`", "`code`", line)
        for pattern, why in WORDS:
            if pattern.search(plain) and not any(piece in plain for piece in ALLOWED):
                yield Finding(path, number, line, why)
    if path.name == "README.md" and path.parent == ROOT:
        for sentence in sentences(text):
            if len(sentence.split()) > LONGEST:
                yield Finding(path, 0, sentence, f"more than {LONGEST} words")


def findings(path: Path) -> list[Finding]:
    """Return the places of a file."""
    return list(in_code(path) if path.suffix == ".py" else in_manual(path))


def test_modules_are_written_in_plain_english():
    found = [str(one) for path in CODE for one in findings(path)]

    assert not found, "\n".join(found)


def test_pages_are_written_in_plain_english():
    found = [str(one) for path in MANUALS for one in findings(path)]

    assert not found, "\n".join(found)


def test_no_message_names_a_requirement():
    found = [
        f"{name(path)}:{line}: {text}"
        for path, line, text in strings_of_all()
        if NUMBER.search(text)
    ]

    assert not found, "\n".join(found)


#: Pages that a user reads to use the program.
FOR_USERS = [
    "README.md", "docs/cli.md", "docs/settings.md", "docs/tutorial.md", "docs/faq.md",
    "docs/how-it-works.md", "docs/limits.md", "docs/exit-status.md", "docs/grow.md",
    "docs/sources.md",
    *(name(path) for path in sorted((ROOT / "docs/howto").glob("*.md"))),
]  # fmt: skip


def test_no_page_for_users_names_a_requirement():
    found = [
        f"{page}:{line}: {text}"
        for page in FOR_USERS
        for line, text in enumerate((ROOT / page).read_text(encoding="utf-8").splitlines(), 1)
        if NUMBER.search(text)
    ]

    assert not found, "\n".join(found)


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

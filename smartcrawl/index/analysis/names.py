"""Names: what a chunk is about by its title, its heading and what it defines (ADR 163).

A name is a key of its own beside the words of a chunk: all of its words as one, so that a name
differs from a text that has the same words, and from a longer name. One function serves index and
query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

from smartcrawl.index.analysis.words import folded
from smartcrawl.model.documents import ChunkPlace
from smartcrawl.model.late_patterns import late_pattern

#: First character of the key of a whole name, and of that of its end or of its parts; what is
#: between its words, in place of an underscore, and before an option: no text has them, and no
#: index takes them for a space.
_WHOLE, _END, _BETWEEN, _UNDERSCORE, _OPTION = "\ue010", "\ue011", "\ue012", "\ue013", "\ue014"
_LONGEST: Final = 100  #: characters of a key; a longer text is no name
_WORDS: Final = 12  #: words of a name
_MOST: Final = 60  #: names of one chunk
_NAME: Final = "name"  #: heading of a manual
_LINE: Final = 200  #: characters of a line that are read for a name
#: A word, with the signs at the end of the name of a programming language.
_PART: Final = late_pattern(r"\w+(?:(?:\+\+|#)(?!\w))?")
_SIGNS: Final = (("_", _UNDERSCORE), ("+", "\ue015"), ("#", "\ue016"))
_INNER: Final = late_pattern(r"_|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
#: What separates the parts of a title, such as the name of its site.
_PARTS: Final = late_pattern(r" (?:[—–|·•»:-]|--|::) | ?[—–] ?")
#: The number of a section, before its name.
_NUMBER: Final = late_pattern(r"(?:\d+\.)+\d*\s+|\d+\.\d[\d.]*\s+")
_SECTION: Final = late_pattern(r" ?\(\d\w{0,3}\)\Z")  #: of a page of a Unix manual
_ARTICLE: Final = late_pattern(r"(?:the|an?)\s+", re.IGNORECASE)
#: What a title has that the four above find something in; most have none of it.
_MORE: Final = late_pattern(r"[—–|·•»:]| -|\A\d|\A(?:the|an?)\s|\)\Z", re.IGNORECASE)
_HEAD: Final = late_pattern(r"[(=<{\[,¶#|]|:(?!:)(?<!::)")  #: where a name in a signature ends
#: Words before a name in a signature.
_KINDS: Final = frozenset({
    "abstractmethod", "async", "attribute", "awaitable", "class", "classmethod",
    "const", "coroutine", "def", "enum", "exception", "fn", "function",
    "interface", "let", "macro", "method", "mod", "module", "namespace", "property", "protected",
    "pub", "public", "static", "staticmethod", "struct", "trait", "typedef", "union",
    "var", "virtual",
})  # fmt: skip
#: What Sphinx and rustdoc put before the name in an id.
_DOMAIN: Final = late_pattern(
    r"(?:[a-z]|(?:ty)?method|variant|structfield|fn|struct|trait|enum|associated\w{4,8})\.(?=\w)"
    r"|(?:cmdoption|envvar|opcode|term)-"
)
_DOTS: Final = late_pattern(r"\.|::|#|->")
#: A line that is an option, a setting or a variable alone, as manuals define them, with the end of
#: the line before it: a search for that is several times faster than one for the start of a line.
_ALONE: Final = late_pattern(
    r"\n(?P<name>--?[A-Za-z][\w-]{0,60}(?=[=\s\[<]|$)|(?:[A-Za-z]\w{0,60}"
    r"(?:\.[\w<>*-]{1,60}){1,4}|[A-Z][A-Z0-9]{1,40}_[A-Z0-9_]{1,60})$)",
    re.MULTILINE,
)


class AskedName(NamedTuple):
    """The keys of a name that a query asks for."""

    whole: str
    end: str  #: of names that end with it or have its words, such as a method or a camelCase name


def asked_name(text: str) -> AskedName | None:
    """Return the keys of a text of a query as a name; None: it is none.

    >>> asked_name("open()") == asked_name("open"), asked_name("?!")
    (True, None)
    >>> asked_name("C++") == asked_name("C"), asked_name("c#?") == asked_name("C#")
    (False, True)
    >>> asked_name("Array#map") == asked_name("Array.map")
    True
    """
    key = _key(text)
    return AskedName(_WHOLE + _sign(text) + key, _END + key) if key else None


def is_identifier(text: str) -> bool:
    """Whether a word of a query is a name by its form.

    >>> [is_identifier(word) for word in ("os.path", "--no-ff", "lru_cache", "getAttr", "open()")]
    [True, True, True, True, True]
    >>> [is_identifier(word) for word in ("stash", "Git", "end.", "well-known")]
    [False, False, False, False]
    """
    inner = text.strip(".,;:!?\"'")
    return (
        text.startswith("--")
        or inner.endswith("()")
        or "_" in inner
        or "::" in inner
        or re.search(r"\w\.\w", inner) is not None
        or re.search(r"[a-z][A-Z]", inner) is not None
    )


def name_words(
    title: str, headings: str, text: str, places: Sequence[ChunkPlace], *, first: bool
) -> str:
    """Return the keys of the names of a chunk, with spaces between.

    Names are the title of its page in its ``first`` chunk, the heading right above it, and what it
    defines: at its places, and in lines that are an option, a setting or a variable alone.
    """
    found: dict[str, None] = {}
    heading = headings.rpartition(" > ")[2]
    for said in (title, heading) if first else (heading,):
        found |= _title_keys(said)
    if heading.lower() == _NAME:
        for name in _names_of_manual(text):
            found |= _keys(name, is_whole=True)
    for name, is_whole in defined_names(text, places):
        found |= _keys(name, is_whole=is_whole)
    return " ".join(list(found)[:_MOST])


@lru_cache(256)  # all chunks below a heading have it
def _title_keys(title: str) -> dict[str, None]:
    found: dict[str, None] = {}
    for name in title_names(title):
        found |= _keys(name, is_whole=True)
    return found


@lru_cache(512)
def _keys(name: str, *, is_whole: bool) -> dict[str, None]:
    """Return the keys of a name: as a whole, of its ends, and of the words that its letters show.

    Of a name that is not ``is_whole`` all are those of an end.
    """
    key = _key(name)
    if not key:
        return {}
    found = {_WHOLE + _sign(name) + key: None} if is_whole else {_END + key: None}
    if name.startswith("-"):
        found[_END + key] = None
    rests = [name, *(name[at.end() :] for at in _DOTS.finditer(name))]
    for at, rest in enumerate(rests):
        for end in (rest if at else "", _inner_words(rest)):
            if end and (key := _key(end)):
                found[_END + key] = None
    return found


def _inner_words(name: str) -> str:
    """Return the words that the letters of a name show, with spaces; empty: it shows none.

    >>> _inner_words("getAttr"), _inner_words("lru_cache"), _inner_words("Stash")
    ('get Attr', 'lru cache', '')
    """
    if "_" not in name and (behind := name[1:]) == behind.lower():
        return ""  # most names; the expression costs more
    words = _INNER.sub(" ", name)
    return "" if words == name else words


def title_names(title: str) -> Iterator[str]:
    """Yield a title, and what it says without numbers, articles and the name of its site.

    >>> list(title_names("3. Data model — Python 3.11.2"))[2:]
    ['3. Data model', 'Data model', 'Python 3.11.2']
    >>> list(title_names("git-stash(1)")), list(title_names("8.5. The with statement"))[1:]
    (['git-stash(1)', 'git-stash'], ['The with statement', 'with statement'])
    """
    name = title.strip()
    if name == title and _MORE.search(name) is None:
        yield from filter(None, (name,))
        return
    for part in dict.fromkeys(filter(None, (name, *_PARTS.split(title)))):
        yield from _without_more(part)


def _without_more(text: str) -> Iterator[str]:
    """Yield a text, and without what stands before or behind a name."""
    known = {text: None}
    for less in (_NUMBER, _SECTION, _ARTICLE):
        for one in list(known):
            found = less.search(one) if less is _SECTION else less.match(one)
            if found:
                known[one[: found.start()] + one[found.end() :]] = None
    yield from known


def _names_of_manual(text: str) -> Iterator[str]:
    """Yield what the section *Name* of a page of a Unix manual says: the name and what it is."""
    name, dash, said = text.partition("\n")[0].partition(" - ")
    if dash:
        yield from (name, *title_names(said))


class DefinedName(NamedTuple):
    """A name that a text defines."""

    name: str
    is_whole: bool  #: whether its id is the name, and has nothing before it


def defined_names(text: str, places: Sequence[ChunkPlace]) -> Iterator[DefinedName]:
    """Yield the names that a text defines.

    >>> text = "class int(x=0)\\nReturn a number."
    >>> [tuple(one) for one in defined_names(text, [ChunkPlace(0, "int", True)])]
    [('int', True)]
    >>> [tuple(one) for one in defined_names(text, [ChunkPlace(0, "fixer-int", True)])]
    [('int', False)]
    >>> [tuple(one) for one in defined_names("open(url)", [ChunkPlace(0, "Opener.open", True)])]
    [('Opener.open', True)]
    >>> [one.name for one in defined_names("--no-ff\\nMerges.\\ncore.eol\\nsee --no-ff", ())]
    ['--no-ff', 'core.eol']
    """
    for place in places[:_MOST]:
        if place.defines and place.start < len(text):
            line = text[place.start : place.start + _LINE].partition("\n")[0]
            yield from _names_of_place(line, place.id)
    for found in islice(_ALONE.finditer(f"\n{text}"), _MOST):
        yield DefinedName(found["name"], is_whole=False)


def _names_of_place(line: str, name: str) -> Iterator[DefinedName]:
    """Yield the name that a signature defines: its id, where that says to what the name belongs.

    A name that the id has not is none, such as a type before the name.
    """
    name = name[found.end() :] if (found := _DOMAIN.match(name)) else name
    said = signature_name(line)
    plain, last = _plain(name), _plain(_DOTS.split(said)[-1])
    if not last or last not in plain:
        return
    is_longer = len(name) > len(said) and name.endswith(said)
    if is_longer and _DOTS.search(name[: -len(said)][-2:]):
        yield DefinedName(name, is_whole=True)
    else:
        yield DefinedName(said, is_whole=plain == _plain(said))


def signature_name(line: str) -> str:
    """Return the name in a signature: what stands before its arguments.

    >>> signature_name("PyObject *PyObject_GetAttr(PyObject *o)"), signature_name("KeyError")
    ('PyObject_GetAttr', 'KeyError')
    >>> signature_name("exception KeyError"), signature_name("abstract base class")
    ('KeyError', 'abstract base class')
    """
    found = _HEAD.search(line)
    head = line[: found.start()] if found else line
    words = head.split()
    if not words:
        return ""
    if words[0].startswith("-"):
        return words[0]
    if (found and found[0] == "(") or words[0].lower() in _KINDS:
        return words[-1].lstrip("*&@")
    return " ".join(words)


def _sign(name: str) -> str:
    return _OPTION if name.startswith("-") else ""


def _plain(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def _key(name: str) -> str:
    """Return the words of a name as one; empty: it has none, or too many."""
    parts = _PART.findall(name[: 2 * _LONGEST].lower())
    key = _BETWEEN.join(parts if name.isascii() else map(folded, parts))
    for sign, other in _SIGNS:
        if sign in key:
            key = key.replace(sign, other)
    return key if len(parts) <= _WORDS and len(key) <= _LONGEST else ""

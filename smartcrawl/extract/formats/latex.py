"""LaTeX: sections, paragraphs and code, without its commands."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from smartcrawl.extract.formats.outline import Outline, Piece, outline_source
from smartcrawl.model.documents import Document

_BEGIN: Final = "\\begin{document}"
_END: Final = "\\end{document}"
_LEVELS: Final = {
    "part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5,
}  # fmt: skip
#: Environments whose content is code.
_CODE: Final = (
    "verbatim", "Verbatim", "lstlisting", "minted", "alltt", "equation", "align", "displaymath",
    "eqnarray", "gather", "multline",
)  # fmt: skip
#: Commands whose arguments are no text.
_SILENT: Final = frozenset({
    "addbibresource", "author", "bibliography", "bibliographystyle", "cite", "citep", "citet",
    "color", "date", "def", "definecolor", "DeclareMathOperator", "documentclass", "eqref",
    "fontsize", "geometry", "graphicspath", "hspace", "hypersetup", "include", "includegraphics",
    "includeonly", "index", "input", "label", "lstset", "newcommand", "newenvironment",
    "newtheorem", "pageref", "pagestyle", "providecommand", "ref", "renewcommand",
    "setcounter", "setlength", "thispagestyle", "usepackage", "usetikzlibrary", "vspace",
})  # fmt: skip
#: Commands whose first argument is no text.
_COLORED: Final = ("colorbox", "parbox", "raisebox", "textcolor")
_SIGNS: Final = {
    "ldots": "…", "dots": "…", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø",
    "O": "Ø", "aa": "å", "AA": "Å", "l": "ł", "L": "Ł", "i": "ı", "TeX": "TeX", "LaTeX": "LaTeX",
    "textbackslash": "\\", "copyright": "©", "S": "§", "euro": "€", "quad": " ", "newline": "\n",
    "textasciitilde": "~", "textless": "<", "textgreater": ">",
}  # fmt: skip
_ACCENTS: Final = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304",
    ".": "\u0307", "c": "\u0327", "v": "\u030c", "u": "\u0306", "H": "\u030b", "k": "\u0328",
    "r": "\u030a",
}  # fmt: skip
_PLAIN: Final = {"---": "—", "--": "–", "``": "“", "''": "”", "~": " "}
_TOKEN: Final = re.compile(
    r"%[^\n]*\n?[ \t]*|\\[a-zA-Z]+\*?[ \t]*|\\[^a-zA-Z]|\n[ \t]*\n\s*|\n|[{}\[\]&$]|---?|``|''|~"
    r"|[^\\%{}\[\]&$\n~`'-]+|[`'-]|\\"
)
_NEAR: Final = 1_000  #: characters of options, and of code within a line
_MAX_DEPTH: Final = 100  #: braces in each other


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    r"""Return the document of a LaTeX text, whose title is that of ``\title``.

    What is before ``\begin{document}`` is no text. Commands, labels, citations and pictures are
    left out; formulas stay as they are written. Nothing is included.

    Source: LaTeX2e, An unofficial reference manual.
    """
    charset, text = outline_source(body, content_type)
    reader = _Latex(text)
    reader.read()
    return reader.outline.document(url, charset, title=reader.title)


class _Latex:
    """Reader of one text, token by token."""

    def __init__(self, text: str) -> None:
        self.outline = Outline(_pieces, ids=False)
        self.title = ""
        self._text = text
        self._at = 0
        self._parts: list[str] = []

    def read(self) -> None:
        """Read the whole text."""
        begin = self._text.find(_BEGIN)
        if begin >= 0:
            title = self._text.find("\\title", 0, begin)
            if title >= 0:
                self._at = title + len("\\title")
                self.title = self._argument()
            self._at = begin + len(_BEGIN)
            end = self._text.find(_END, self._at)
            self._text = self._text[: end if end >= 0 else None]
        while part := self._next():
            self._take(part)
        self._end_paragraph()

    def _next(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _take(self, part: str) -> None:
        first = part[0]
        if first == "%" or part in ("{", "}"):
            return
        if first == "\n":
            if part == "\n":
                self._parts.append(" ")
            else:
                self._end_paragraph()
        elif first == "$":
            self._parts.append("$")
        elif first == "\\" and part[1:2].isalpha():
            self._command(part[1:].rstrip(" \t"))
        elif first == "\\":
            self._sign(part[1:])
        else:
            self._parts.append(" " if part == "&" else _PLAIN.get(part, part))

    def _sign(self, sign: str) -> None:
        if sign in _ACCENTS:
            self._accent(sign)
        elif sign == "\\":
            self._end_paragraph()
        elif sign in "[](),;: /":
            self._parts.append(" " if sign in ",;: " else "")
        else:
            self._parts.append(sign)

    def _accent(self, accent: str) -> None:
        """Put an accent on the letter that follows."""
        part = self._argument() if self._text[self._at : self._at + 1] == "{" else ""
        if not part:
            part = self._text[self._at : self._at + 1]
            self._at += 1
        letter = part[:1].replace("ı", "i")
        whole = unicodedata.normalize("NFC", letter + _ACCENTS[accent])
        self._parts.append(whole + part[1:])

    def _command(self, name: str) -> None:
        plain = name.rstrip("*")
        if plain in _LEVELS:
            self._end_paragraph()
            self._skip_options()
            self.outline.head(self._argument(), _LEVELS[plain])
        elif plain in _SILENT:
            self._skip_arguments()
        elif plain in _ACCENTS and self._text[self._at : self._at + 1] == "{":
            self._accent(plain)
        elif plain in _HANDLERS:
            _HANDLERS[plain](self)
        else:
            self._parts.append(_SIGNS.get(plain, ""))
            self._skip_options()

    def _end_environment(self) -> None:
        self._end_paragraph()
        self._argument()

    def _break(self) -> None:
        self._end_paragraph()
        self._skip_options()

    def _space(self) -> None:
        self._parts.append(" ")

    def _name(self) -> None:
        self.title = self.title or self._argument()

    def _link(self) -> None:
        href = self._argument()
        self._parts.append(f"\1{href}\2{self._argument()}\3")

    def _address(self) -> None:
        href = self._argument()
        self._parts.append(f"\1{href}\2{href}\3")

    def _colored(self) -> None:
        """Leave out the first argument."""
        self._skip_options()
        self._argument()

    def _verbatim(self) -> None:
        """Read code between two equal signs."""
        sign, after = self._text[self._at : self._at + 1], self._at + 1
        end = self._text.find(sign, after, after + _NEAR) if sign else -1
        if end > 0:
            self._parts.append(self._text[self._at + 1 : end])
            self._at = end + 1

    def _environment(self) -> None:
        self._end_paragraph()
        name = self._argument()
        if name == "frame":
            self._skip_options()
            self.outline.head(self._argument(), _LEVELS["subsection"])
            return
        if name.rstrip("*") not in _CODE:
            self._skip_arguments()
            return
        self._skip_options()
        if name == "minted":
            self._argument()
        end = self._text.find(f"\\end{{{name}}}", self._at)
        end = end if end >= 0 else len(self._text)
        self.outline.code_lines(self._text[self._at : end].split("\n"))
        self._at = end

    def _skip_options(self) -> None:
        """Leave out what is between square brackets here."""
        if self._text[self._at : self._at + 1] == "[":
            end = self._text.find("]", self._at, self._at + _NEAR)
            self._at = end + 1 if end >= 0 else self._at

    def _skip_arguments(self) -> None:
        """Leave out all options and arguments that follow at once."""
        while self._text[self._at : self._at + 1] in ("[", "{"):
            before = self._at
            self._skip_options()
            self._argument()
            if self._at == before:
                return

    def _argument(self) -> str:
        """Return the text of the argument that begins here, without its commands."""
        if self._text[self._at : self._at + 1] != "{":
            return ""
        depth, before, self._parts = 0, self._parts, []
        while part := self._next():
            depth += (part == "{") - (part == "}")
            if depth == 0 or depth > _MAX_DEPTH:
                break
            if part[0] == "\\" and part[1:2].isalpha():
                name = part[1:].rstrip(" \t*")
                self._parts.append(_SIGNS.get(name, ""))
                if name in _SILENT:
                    self._skip_arguments()
            else:
                self._take(part)
        text, self._parts = " ".join("".join(self._parts).split()), before
        return text

    def _end_paragraph(self) -> None:
        text = " ".join("".join(self._parts).split())
        self._parts.clear()
        if text:
            self.outline.paragraph(text)


_HANDLERS: Final[Mapping[str, Callable[[_Latex], None]]] = {
    "begin": _Latex._environment,
    "end": _Latex._end_environment,
    **dict.fromkeys(("caption", "maketitle", "par"), _Latex._break),
    "item": _Latex._end_paragraph,
    "footnote": _Latex._space,
    "title": _Latex._name,
    "href": _Latex._link,
    "url": _Latex._address,
    "verb": _Latex._verbatim,
    **dict.fromkeys(_COLORED, _Latex._colored),
}


def _pieces(text: str) -> Iterator[Piece]:
    """Yield the parts of a paragraph; a link stands between marks, which no text has."""
    first, *links = text.split("\1")
    yield Piece(first)
    for link in links:
        href, _, rest = link.partition("\2")
        shown, _, after = rest.partition("\3")
        yield Piece(shown, href)
        yield Piece(after)

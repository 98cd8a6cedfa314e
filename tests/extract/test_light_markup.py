"""Texts in reStructuredText, AsciiDoc, Org and LaTeX: headings, code and links, and no noise."""

import time
from contextlib import suppress

import pytest

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.formats import FormatError, read_document
from smartcrawl.extract.sniff import ASCIIDOC, LATEX, ORG, RST, sniffed_media_type
from smartcrawl.model.documents import Document
from tests.tiers import some

URL = "http://site.example/dir/lamps"


def read(source: str, mime: str) -> Document:
    return read_document(source.encode(), media_type=mime, content_type="", url=URL)


def outline(document: Document) -> list[tuple[int, str, str]]:
    return [(one.level, one.heading, one.text) for one in document.sections]


def blocks(document: Document) -> list[tuple[str, str]]:
    return [
        (block.kind, section.text[block.start : block.end])
        for section in document.sections
        for block in section.blocks
    ]


def links(document: Document) -> list[tuple[str, str]]:
    return [(link.url, link.anchor) for link in document.links]


REST = """:orphan:

.. _top:

=====
Lamps
=====

A *lit* lamp takes ``a fuse``, see `the guide <guide.html>`_ and `named`_
or :func:`~lamps.light` and :ref:`kinds <kinds>`. :term:`!fuse` burns.

.. _named: https://other.example/named
.. a comment
   of two lines

.. toctree::
   :maxdepth: 2

   one
   two

Kinds
-----
* one
* two
  goes on
1. first

.. note:: Mind the gap.

   It is wide.

.. code-block:: python
   :linenos:

   def f():

       return 1

An example::

    x = 1

.. image:: lamp.png
   :alt: A lit lamp

>>> light()
True

----

.. [1] A footnote.

+------+-----+
| Name | Use |
+======+=====+
| Fuse | two |
|      | amp |
+------+-----+

=====  =====
Kind   Size
=====  =====
c      d
       e

f      g
=====  =====

Deeper
~~~~~~

:field: value

| a line

Again
-----

the end
"""


def test_restructured_text_gives_headings_code_tables_and_links():
    document = read(REST, RST)
    assert document.title == "Lamps"
    assert outline(document) == [
        (1, "Lamps",
         "A lit lamp takes a fuse, see the guide and named or light and kinds. fuse burns."),
        (2, "Kinds",
         "one\ntwo goes on\n1. first\nMind the gap.\nIt is wide.\ndef f():\n\n    return 1\n"
         "An example:\nx = 1\nA lit lamp\n>>> light()\nTrue\n[1] A footnote.\nName Use\n"
         "Fuse two amp\nKind Size\nc d e\nf g"),
        (3, "Deeper", "field: value\na line"),
        (2, "Again", "the end"),
    ]  # fmt: skip
    assert blocks(document) == [
        ("code", "def f():\n\n    return 1"), ("code", "x = 1"), ("code", ">>> light()\nTrue"),
        ("table", "Name Use\nFuse two amp"), ("table", "Kind Size\nc d e\nf g"),
    ]  # fmt: skip
    assert [block.head for block in document.sections[1].blocks[3:]] == [1, 1]
    assert links(document) == [
        ("http://site.example/dir/guide.html", "the guide"),
        ("https://other.example/named", "named"),
    ]


ADOC = """= Lamps of the Harbour
Jane Doe <jane@other.example>
v1.0, 2020-01-01
:toc: left
:lang: en
:product: Lampora

[[intro]]
== Introduction

The {product} lamp takes {more}, see https://other.example/a[the guide^]
or <<intro,the start>> and link:b.html[b]. `code x` is *bold* and _thin_. +
A bare https://other.example/c is a link.

// a comment
[source,python]
----
def f():

    return 1
----

.Steps
* one
** two
. three

CPU:: the brain

include::other.adoc[]
image::lamp.png[A lit lamp, 200]

[cols="1,2"]
|===
|Name |Use
|Fuse
|amperes
|===

====
Boxed
====

////
hidden
////

 literal text
"""


def test_asciidoc_gives_headings_code_tables_and_links():
    document = read(ADOC, ASCIIDOC)
    assert (document.title, document.declared) == ("Lamps of the Harbour", "en")
    assert outline(document) == [
        (1, "Lamps of the Harbour", ""),
        (2, "Introduction",
         "The Lampora lamp takes {more}, see the guide or the start and b. code x is bold and thin."
         " A bare https://other.example/c is a link.\ndef f():\n\n    return 1\nSteps\none\ntwo\n"
         "three\nCPU\nthe brain\nA lit lamp\nName Use\nFuse\namperes\nBoxed\nliteral text"),
    ]  # fmt: skip
    assert [text for kind, text in blocks(document) if kind == "code"] == [
        "def f():\n\n    return 1", "literal text",
    ]  # fmt: skip
    assert links(document) == [
        ("https://other.example/a", "the guide"),
        ("http://site.example/dir/b.html", "b"),
        ("https://other.example/c", "https://other.example/c"),
    ]


ORG_TEXT = """#+TITLE: About lamps
#+AUTHOR: J
# a comment
* TODO [#A] Fuses [1/2]                                   :home:work:
  SCHEDULED: <2020-01-01 Wed>
  :PROPERTIES:
  :ID: 12
  :END:
A lamp takes =a fuse= and [[https://other.example/x][the guide]].
It is /lit/ by [[file:b.org]].
** Kinds
- [ ] one
- two :: the second
#+CAPTION: Both
#+BEGIN_SRC python
def f():
    return 1
#+END_SRC
#+begin_comment
hidden
#+end_comment
#+BEGIN_QUOTE
Quoted
#+END_QUOTE
| Name | Use |
|------+-----|
| Fuse | 2   |
: fixed
"""


def test_org_gives_headings_code_tables_and_links():
    document = read(ORG_TEXT, ORG)
    assert document.title == "About lamps"
    assert outline(document) == [
        (1, "Fuses", "A lamp takes a fuse and the guide. It is lit by b.org."),
        (2, "Kinds",
         "one\ntwo: the second\nBoth\ndef f():\n    return 1\nQuoted\nName Use\nFuse 2\nfixed"),
    ]  # fmt: skip
    assert blocks(document) == [
        ("code", "def f():\n    return 1"), ("table", "Name Use\nFuse 2"), ("code", "fixed"),
    ]  # fmt: skip
    assert document.sections[1].blocks[1].head == 1
    assert links(document) == [
        ("https://other.example/x", "the guide"), ("http://site.example/dir/b.org", "b.org"),
    ]  # fmt: skip


TEX = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\title{Lamps \& \textbf{Fuses}\label{t}}
\begin{document}
\maketitle
% a comment
\section[short]{Start\label{sec:a}}
The caf\'e na\"{\i}ve lamp~lit, see \href{https://other.example/a}{the guide}
and \cite{x}. It costs 5\% -- ``yes''\footnote{A note.}. Formula $E = mc^2$, \verb|x_y|.

\textcolor{red}{Red} \ldots

\subsection*{Kinds}
\begin{itemize}
\item one
\item two
\end{itemize}
\begin{verbatim}
def f():
    return 1 % no comment
\end{verbatim}
\begin{tabular}{ll}
a & b \\
c & d
\end{tabular}
\begin{frame}{A slide}\includegraphics[width=3cm]{lamp}shown\end{frame}
\end{document}
not printed
"""


def test_latex_gives_sections_and_code_and_no_commands():
    document = read(TEX, LATEX)
    assert document.title == "Lamps & Fuses"
    assert outline(document) == [
        (2, "Start",
         "The café naïve lamp lit, see the guide and . It costs 5% – “yes” A note.. Formula"
         " $E = mc^2$, x_y.\nRed …"),
        (3, "Kinds", "one\ntwo\ndef f():\n    return 1 % no comment\na b\nc d"),
        (3, "A slide", "shown"),
    ]  # fmt: skip
    assert blocks(document) == [("code", "def f():\n    return 1 % no comment")]
    assert links(document) == [("https://other.example/a", "the guide")]


@pytest.mark.parametrize("mime", [RST, ASCIIDOC, ORG, LATEX])
def test_a_text_without_a_heading_has_its_first_line_as_title(mime: str):
    document = read("Only a line.\n\nAnother one.\n", mime)
    assert (document.title, document.text) == ("Only a line.", "Only a line.\nAnother one.")
    assert read("", mime).sections == ()


@pytest.mark.parametrize(
    ("name", "header", "mime"),
    [
        ("a.rst", "", RST), ("a.rst", "text/plain", RST), ("a", "text/x-rst", RST),
        ("a.adoc", "", ASCIIDOC), ("a.asciidoc", "text/plain", ASCIIDOC), ("a.org", "", ORG),
        ("a.tex", "text/plain", LATEX), ("a", "text/x-tex; charset=utf-8", LATEX),
        ("a.rst", "text/html", "text/html"), ("a.txt", "", "text/plain"),
    ],
)  # fmt: skip
def test_light_markup_is_known_by_its_ending_or_header(name: str, header: str, mime: str):
    assert sniffed_media_type(header, b"Lamps\n=====\n", f"http://site.example/{name}") == mime


PIECES = [
    "`", "``", "*", "_", "|", "+", "=", ":", "::", ".. ", ".. a::\n", "[", "[[", "]", "<", "{", "}",
    "\\", "\\verb|", "\\item[", "\\title{", "\\'{", "\\begin{verbatim}", "%", "$", "#+begin_src\n",
    ":a:\n", "----\n", "|===\n", "| a\n", "+-\n| a |\n", ">>> a\n", "a\n", " a\n", "\n", "\t", "a ",
    "http://a[", "link:", "* a :b:", "1. ", "= ", "''", "<<", ">>", "[1/2]",
]  # fmt: skip
QUOTING = ("`", "[", "{", ".. a::\n", "|===\n", "\\begin{verbatim}")  #: what looks for its end


@pytest.mark.parametrize("mime", [RST, ASCIIDOC, ORG, LATEX])
def test_the_time_grows_with_the_length_alone(mime: str):
    for piece in some(PIECES, 3, always=lambda piece: piece in QUOTING):
        taken = []
        for count in (2_000, 16_000):
            begin = time.process_time()
            with suppress(FormatError):  # what is nested too deep
                read(piece * count, mime)
            taken.append(time.process_time() - begin)
        assert taken[1] < 8 * 3 * taken[0] + 0.5, (piece, taken)


def ids(document: Document) -> list[str]:
    return [chunk.section for chunk in document_chunks(document)]


@pytest.mark.parametrize(
    ("mime", "source", "wanted"),
    [
        (
            RST,
            "What's *new*?\n=============\n\nA.\n\nLamps\n-----\n\nTwo.\n\nLamps\n-----\n\nOil.\n",
            ["whats-new", "lamps", "lamps-1"],
        ),
        (
            ASCIIDOC,
            "= Guide\n\nOne.\n\n[[fuse]]\n== Spare fuses\n\nTwo.\n\n[.wide#oil,role=x]\n== Oil\n\n"
            "Three.\n\n[#stray]\nFour.\n\n== `lamp` off\n\nFive.\n",
            ["guide", "fuse", "oil", "lamp-off"],
        ),
        (ORG, "* TODO Lamps :old:\nOne.\n** Oil [1/2]\nTwo.\n", ["lamps", "oil"]),
        (LATEX, "\\section{Lamps}\nOne.\n\\section{Oil}\nTwo.\n", ["", ""]),
    ],
)
def test_headings_have_the_ids_that_github_shows(mime, source, wanted):
    assert ids(read(source, mime)) == wanted

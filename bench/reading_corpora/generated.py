"""Pages of generators of documentation in Debian packages, and where their authors' text is."""

from typing import Final, NamedTuple


class Generated(NamedTuple):
    """Pages that one generator wrote."""

    package: str
    pages: str  #: their paths below /usr/share
    keep: str  #: CSS selectors of the elements that have the text
    drop: str = ""  #: those in them that do not


_DOCBOOK: Final = "div.refentry, div.chapter, div.part"

GENERATED: Final = {
    "Sphinx, theme of Python": Generated("python3-doc", "doc/python3*/html/*/*.html", "div.body"),
    "Sphinx, own theme": Generated(
        "python-django-doc",
        "doc/python-django-doc/html/*/*.html",
        "#bd div.yui-b:not(#sidebar)",
        ".nav, #sidebar",
    ),
    "Sphinx, alabaster": Generated(
        "python-flask-doc", "doc/python-flask-doc/html/*.html", "div.body"
    ),
    "MkDocs": Generated("mkdocs-doc", "doc/mkdocs/html/*/*.html", "[role=main]"),
    "AsciiDoc": Generated(
        "git-doc",
        "doc/git-doc/*.html",
        "#header h1, #header h2, #header .sectionbody, #preamble, #content",
        "#toc",
    ),
    "DocBook": Generated(
        "postgresql-doc-15",
        "doc/postgresql-doc-15/html/*.html",
        "body",
        ".navheader, .navfooter, .toc",
    ),
    "DocBook, aptitude": Generated(
        "aptitude-doc-en", "doc/aptitude/html/en/*.html", "body", ".navheader, .navfooter, .toc"
    ),
    "GTK-Doc": Generated("libglib2.0-doc", "gtk-doc/html/gio/*.html", _DOCBOOK, ".toc"),
    "Doxygen": Generated(
        "doxygen-doc", "doc/doxygen/html/*.html", "div.header .title, div.contents", "div.toc"
    ),
    "Javadoc": Generated(
        "libcommons-lang3-java-doc", "doc/libcommons-lang3-java/api/org/**/*.html", "main"
    ),
    "Groovydoc": Generated(
        "groovy-doc",
        "doc/groovy/gapi/groovy/util/*.html",
        "div.header, div.contentContainer",
        ".subNav, .bottomNav, .topNav, .aboutLanguage, .legalCopy",
    ),
    "QDoc": Generated(
        "qtbase5-doc-html", "qt5/doc/qtcore/*.html", "div.mainContent", ".sidebar, .toc"
    ),
    "Texinfo": Generated(
        "zsh-doc", "doc/zsh-common/html/*.html", "body", ".nav-panel, .header, .navigation, .menu"
    ),
    "EDoc": Generated(
        "erlang-doc", "doc/erlang-doc/lib/stdlib-*/doc/html/*.html", "#content", ".leftnav, .footer"
    ),
    "Node.js": Generated("nodejs-doc", "doc/nodejs/api/*.html", "#apicontent"),
    "SQLite": Generated(
        "sqlite3-doc", "doc/sqlite3/*.html", "body", ".nosearch, .fancy_toc, #toc, .fancy-toc1"
    ),
}

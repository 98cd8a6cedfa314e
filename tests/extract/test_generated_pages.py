"""Pages as generators write them: text, headings, code and links that are right."""

from pathlib import Path

import pytest

from smartcrawl.extract.generators import generated_markup, page_generator
from smartcrawl.extract.html import parse_html
from smartcrawl.reports.export import page_as_markdown

PAGES = Path(__file__).parents[1] / "data" / "generators"
URL = "https://lights.example/guide/page.html"


def read(body: bytes) -> str:
    document = parse_html(body, content_type="text/html; charset=utf-8", url=URL)
    return page_as_markdown(document, url=URL)


@pytest.mark.parametrize("name", sorted(path.stem for path in PAGES.glob("*.html")))
def test_a_page_of_a_generator_is_read_as_its_author_wrote_it(name: str):
    found = read((PAGES / f"{name}.html").read_bytes())

    assert found == (PAGES / f"{name}.md").read_text("utf-8")


def test_each_page_has_its_text():
    pages = {path.stem for path in PAGES.iterdir()} - {"README"}

    assert len(pages) == 16
    assert all(
        (PAGES / f"{name}{ending}").exists() for name in pages for ending in (".html", ".md")
    )


@pytest.mark.parametrize(
    "name", ["docusaurus", "doxygen", "gitbook", "mkdocs-material", "vitepress"]
)
def test_links_of_what_is_left_out_are_still_followed(name: str):
    body = (PAGES / f"{name}.html").read_bytes()

    document = parse_html(body, content_type="text/html", url=URL)

    wanted = "lamp_8h" if name == "doxygen" else "keeper"
    assert any(wanted in link.url for link in document.links)


@pytest.mark.parametrize(
    ("markup", "generator"),
    [
        ('<meta name="generator" content="Doxygen 1.9.4"/>', "doxygen"),
        ("<META CONTENT='rustdoc' NAME=generator>", "rustdoc"),
        ('<meta name="generator" content="VitePress v1.6.4"', "vitepress"),
        ('<p>a generator</p><meta name="generator" content="Docusaurus v3">', "docusaurus"),
        ('<body class="theme-default aui-theme-default">', "confluence"),
        ('<meta name="generator" content="Sphinx 8">', ""),
        ("<p>generator doxygen</p>", ""),
        ("generator", ""),
        (f'{" " * 20_000}<meta name="generator" content="rustdoc">', ""),
    ],
)
def test_a_page_names_its_generator(markup: str, generator: str):
    assert page_generator(markup) == generator


@pytest.mark.parametrize(
    ("markup", "made"),
    [
        ('<div class="fragment"><div class="line">a</div>\n', None),
        ('<div class="fragment"></div><!-- fragment -->', '<pre class="fragment"></pre>'),
        ('<div class="title">A &amp; B</div>', "<h1>A &amp; B</h1>"),
        ('<div class="title"><b>A</b></div>', None),
        (
            '<div class="fragment"><div class="line">a</div>\n<div class="ttc" id="x"><div>t</div>'
            "</div>\n</div><!-- fragment --><p>b</p>",
            '<pre class="fragment">a\n</pre><p>b</p>',
        ),
    ],
)
def test_code_of_doxygen_is_laid_out_text(markup: str, made: str | None):
    assert generated_markup("doxygen", markup) == (markup if made is None else made)
    assert generated_markup("vitepress", markup) == markup


def test_many_fragments_without_an_end_take_no_time():
    markup = '<div class="fragment">' * 200_000

    assert generated_markup("doxygen", markup) == markup

"""Documents that are no pages: found, read, searched; what cannot be read harms nobody else."""

import io
import json
import zipfile
from functools import cache

import pytest
from docx import Document as Word
from pptx import Presentation
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfgen.canvas import Canvas

from tests.crawls.commands import Crawl
from tests.crawls.workbooks import long, xlsx
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=1)


@cache
def pdf(text: str, password: str | None = None) -> bytes:
    out = io.BytesIO()
    encrypt = StandardEncryption(password) if password else None
    canvas = Canvas(out, encrypt=encrypt)
    canvas.setTitle(f"PDF of {text}")
    canvas.drawString(72, 700, text)
    canvas.linkURL("/linked", (72, 700, 200, 720))
    canvas.showPage()
    canvas.save()
    return out.getvalue()


def docx(text: str) -> bytes:
    out, word = io.BytesIO(), Word()
    word.add_heading("A heading", 1)
    word.add_paragraph(f"{text} & more")
    word.save(out)
    return out.getvalue()


def pptx(text: str) -> bytes:
    out, show = io.BytesIO(), Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text, slide.placeholders[1].text = "A slide", text
    show.save(out)
    return out.getvalue()


def packed(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), text)
    return out.getvalue()


ODT = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text>'
    "<text:p>words of odt</text:p></office:text></office:body></office:document-content>"
)
OFFICE = "application/vnd.openxmlformats-officedocument."


@pytest.mark.covers("R0-60", "R0-47")
def test_documents_of_every_format_are_found_by_their_words(site: Site, crawl: Crawl):
    site.pages["/a.pdf"] = Page(pdf("words of pdf"), content_type="application/pdf")
    site.pages["/b.docx"] = Page(
        docx("words of docx"), content_type=f"{OFFICE}wordprocessingml.document"
    )
    site.pages["/c.pptx"] = Page(pptx("words of pptx"), content_type="application/octet-stream")
    site.pages["/d.xlsx"] = Page(xlsx("words of xlsx"), content_type="application/zip")
    site.pages["/e.odt"] = Page(
        packed(mimetype="application/vnd.oasis.opendocument.text", content_dot_xml=ODT),
        content_type=None,
    )
    site.pages["/f.md"] = Page(
        "# Head\n\nwords of markdown [x](/linked-too)", content_type="text/markdown"
    )
    site.pages["/g.csv"] = Page("a;b\nwords of csv;1\n", content_type="text/csv")
    site.pages["/h.json"] = Page('{"a": ["words of json"]}', content_type="application/json")
    site.pages["/i.xml"] = Page("<a><b>words of xml</b></a>", content_type="application/xml")
    site.pages["/j.txt"] = Page("words of text", content_type="text/plain")
    site.pages["/k"] = Page(pdf("words of disguise"), content_type="text/html")
    site.pages["/linked"] = html("Linked", text="words of a target")
    site.pages["/linked-too"] = html("Linked", text="words of a second target")
    paths = [path for path in site.pages if not path.startswith("/linked")]
    site.pages["/"] = html("Home", *paths)

    crawl(site.url("/"))

    assert crawl.hits('"words of"') == sorted([*paths, "/linked", "/linked-too"])
    assert crawl.hits('"words of docx & more"') == ["/b.docx"]
    (hit,) = crawl.search('"words of pdf"')
    assert hit["title"] == "PDF of words of pdf"
    site.clear()
    crawl(site.url("/"))
    assert {r.status for r in site.log if r.path in paths} == {304}


@cache
def bomb() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        source = zipfile.ZipFile(io.BytesIO(docx("x")))
        for name in source.namelist():
            if name != "word/document.xml":
                archive.writestr(name, source.read(name))
        with archive.open("word/document.xml", "w") as member:
            for _ in range(400):
                member.write(b" " * 1_000_000)
    return out.getvalue()


@pytest.mark.covers("R0-94", "R4-41", "U-14")
def test_what_cannot_be_read_is_an_error_of_its_page_only(site: Site, crawl: Crawl):
    bad = {
        "/corrupt.pdf": (b"%PDF-1.7 nothing", 1205),
        "/cut.docx": (docx("x")[:2_000], 1205),
        "/secret.pdf": (pdf("secret", "password"), 1206),
        "/bomb.docx": (bomb(), 1207),
    }
    for path, (body, _) in bad.items():
        site.pages[path] = Page(body, content_type="application/octet-stream")
    site.pages["/good.pdf"] = Page(pdf("words of pdf"), content_type="application/pdf")
    site.pages["/"] = html("Home", *bad, "/good.pdf")

    crawl(site.url("/"))  # and the run is complete: they answered

    assert crawl.hits('"words of pdf"') == ["/good.pdf"]
    found = {path: crawl.pages()[path]["httpStatusCode"] for path in bad}
    assert found == {path: status for path, (_, status) in bad.items()}
    assert "encrypted" in crawl.pages()["/secret.pdf"]["errorMessage"]
    why = crawl.run("why", site.url("/bomb.docx")).out
    assert "cannot be read" in why


def test_a_document_that_breaks_stays_as_it_was(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a.pdf")
    site.pages["/a.pdf"] = Page(pdf("words of pdf"), content_type="application/pdf")
    crawl(site.url("/"))
    site.pages["/a.pdf"] = Page(pdf("words of pdf")[:300], content_type="application/pdf")
    for _ in range(4):
        crawl(site.url("/"))

    assert crawl.hits('"words of pdf"') == ["/a.pdf"]
    assert crawl.pages()["/a.pdf"]["status"] == "Error"


def test_a_text_of_100_mb_is_refused_and_the_rest_goes_on(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/long.txt", "/a")
    site.pages["/long.txt"] = Page(b"many words " * 9_100_000, content_type="text/plain")
    site.pages["/a"] = html("A", text="the text of a")

    crawl(site.url("/"), settings={"DOWNLOAD_MAXSIZE": 200_000_000})

    assert crawl.pages()["/long.txt"]["httpStatusCode"] == 1207
    assert crawl.hits('"the text of a"') == ["/a"]


def test_pages_do_not_wait_behind_documents(site: Site, crawl: Crawl):
    documents = [f"/{n}.xlsx" for n in range(6)]
    site.pages |= {path: long(40_000, f"late{path[1]}") for path in documents}
    site.pages |= {f"/{n}": html("Page", f"/{n + 1}") for n in range(1, 6)}
    site.pages["/"] = html("Home", *documents, "/1")
    site.pages["/6"] = html("Last")
    crawl.environment |= {"EXTRACT_PROCESSES": "1", "EXTRACT_SECONDS_PER_HOST": "0"}

    result = crawl.run(
        "crawl", "site", "-a", f"url={site.url('/')}", "--progress", "json",
        "-s", "SCRAPER_SLOT_MAX_ACTIVE_SIZE=100000",  # bytes of answers in the pipelines
    )  # fmt: skip
    lines = [json.loads(line) for line in result.out.splitlines() if line.startswith("{")]
    order = [line["url"].rpartition("/")[2] for line in lines if "outcome" in line]

    assert sorted(order) == sorted(["", *map(str, range(1, 7)), *(p[1:] for p in documents)])
    assert sum(name.endswith("xlsx") for name in order[: order.index("6")]) <= 3
    assert [crawl.hits(f"late{n}") for n in range(6)] == [[path] for path in documents]

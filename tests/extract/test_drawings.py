"""Texts in drawings of Office files and books: alternative texts, diagrams, chapters of SVG."""

from io import BytesIO
from zipfile import ZipFile

from smartcrawl.extract.formats import read_document
from smartcrawl.extract.sniff import DOCX, EPUB, PPTX
from tests.extract import made_documents as documents
from tests.extract.made_documents import epub, word_of, zipped


def text(body: bytes, mime: str) -> str:
    url = "http://site.example/dir/document"
    return read_document(body, media_type=mime, content_type="", url=url).text


def members(body: bytes) -> dict[str, str | bytes]:
    """Return the members of a ZIP file."""
    with ZipFile(BytesIO(body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def run(content: str) -> str:
    return f"<w:r><w:t>{content}</w:t></w:r>"


def paragraph(content: str) -> str:
    return f"<w:p>{content}</w:p>"


DIAGRAM = """<d:dataModel xmlns:d='urn:d' xmlns:a='urn:a'><d:ptLst><d:pt modelId='0' type='doc'/>
<d:pt modelId='2'><d:t><a:p><a:r><a:t>Second</a:t></a:r></a:p></d:t></d:pt>
<d:pt modelId='1'><d:t><a:p><a:r><a:t>Fi</a:t></a:r><a:r><a:t>rst</a:t></a:r></a:p>
<a:p><a:r><a:t>and</a:t></a:r><a:br/><a:r><a:t>more</a:t></a:r></a:p></d:t></d:pt>
<d:pt modelId='3'><d:t><a:p><a:r><a:t>Below</a:t></a:r></a:p></d:t></d:pt>
<d:pt modelId='4'><d:t><a:p><a:r><a:t>Circle</a:t></a:r></a:p></d:t></d:pt>
<d:pt modelId='5' type='pres'/></d:ptLst><d:cxnLst>
<d:cxn srcId='0' destId='2' srcOrd='1'/><d:cxn srcId='0' destId='1' srcOrd='0'/>
<d:cxn srcId='1' destId='3' srcOrd='x'/><d:cxn srcId='4' destId='4'/><d:cxn srcId='3' destId='9'/>
<d:cxn type='presOf' srcId='4' destId='1'/></d:cxnLst></d:dataModel>"""


def test_docx_gives_alternative_texts_and_diagrams_after_their_paragraph():
    picture = "<w:drawing><a:docPr id='1' {}/></w:drawing>"
    diagram = "<a:relIds r:dm='diagram' r:lo='styles'/>"
    body = paragraph(
        run("a ")
        + picture.format("descr='A  lamp'")
        + picture.format("title='Its cable'")
        + run("b")
    )
    body += paragraph(
        picture.format("descr='C:\\lamp one.png'") + picture.format("name='P'") + diagram
    )
    hidden = picture.format("descr='hidden'")
    body += paragraph(f"<w:r><w:rPr><w:vanish/></w:rPr>{hidden}</w:r>")
    body += paragraph("<a:relIds r:dm='missing'/><a:relIds r:dm='out'/>" + run("end"))

    assert text(word_of(body), DOCX).split("\n") == ["a b", "A lamp", "Its cable", "end"]
    files = members(word_of(body, diagram=""))
    files["word/diagram.xml"] = DIAGRAM.encode()
    assert text(zipped(files), DOCX).split("\n") == [
        "a b", "A lamp", "Its cable", "First", "and more", "Below", "Second", "Circle", "end",
    ]  # fmt: skip


def test_pptx_gives_alternative_texts_and_diagrams():
    files = members(documents.slides())
    slide, related = "ppt/slides/slide1.xml", "ppt/slides/_rels/slide1.xml.rels"
    picture = b"<p:pic><p:nvPicPr><p:cNvPr id='9' name='P' descr='A lamp'/></p:nvPicPr></p:pic>"
    picture += b"<p:pic><p:nvPicPr><p:cNvPr id='9' descr='lamp.jpeg'/></p:nvPicPr></p:pic>"
    diagram = b"<p:graphicFrame><d:relIds xmlns:d='urn:d' r:dm='dgm'/></p:graphicFrame>"
    files[slide] = files[slide].replace(b"</p:spTree>", picture + diagram + b"</p:spTree>")
    relation = f"<Relationship Id='dgm' Type='{documents.OFFICE}/diagramData' Target='../d.xml'/>"
    files[related] = files[related].replace(b"</Rel", relation.encode() + b"</Rel")
    files["ppt/d.xml"] = DIAGRAM.encode()

    lines = text(zipped(files), PPTX).split("\n")

    assert lines[5:12] == [
        "A lamp", "First", "and more", "Below", "Second", "Circle", "Speak slowly",
    ]  # fmt: skip


DRAWING = """<svg xmlns='http://www.w3.org/2000/svg'><title>Cover</title><style>a {{}}</style>
<text x='1'>A <tspan>l</tspan><tspan>amp</tspan><tspan x='0' y='9'>at</tspan><tspan
dy='9'>night</tspan></text><desc> </desc><foreignObject><p>and <b>more</b></p></foreignObject>
</svg>"""


def test_epub_chapters_that_are_drawn_have_the_text_of_their_drawing():
    page = f"<html xmlns='http://www.w3.org/1999/xhtml'><title>t</title><body>{DRAWING}{{}}</body></html>"
    package = members(epub())["OEBPS/book.opf"].decode()
    drawn = package.replace(
        "href='p.png' media-type='image/png'", "href='p' media-type='image/svg+xml'"
    )
    files = {
        "OEBPS/book.opf": drawn,
        "OEBPS/p": DRAWING.format(),
        "OEBPS/text/two.xhtml": page.format(""),
    }
    shown = "Cover\nA lamp at night\nand more"

    lines = text(epub(**files), EPUB).partition("web\n")[2]

    assert lines == f"{shown}\n{shown}"
    beside = {"OEBPS/text/two.xhtml": page.format("<p>words</p>")}
    assert text(epub(**beside), EPUB).endswith("web\nwords")
    broken = {"OEBPS/text/two.xhtml": page.format("<p>")}
    assert text(epub(**broken), EPUB).endswith(f"web\n{shown}")

"""CPU of reading PDFs, with paragraphs, links and language, against PDFium's bare text loop.

python bench/formats.py FILE.pdf ...   (without files: two made by reportlab)
"""

import io
import statistics
import sys
import time
from pathlib import Path

import pypdfium2
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate

from smartcrawl.extract.formats import read_document
from smartcrawl.extract.sniff import PDF

ROUNDS = 9
TEXT = "A crawler visits every page that it knows and asks whether it has changed since then. " * 8


def made(pages: int, link: str) -> bytes:
    """Return a PDF with seven paragraphs a page, each with ``link`` in it."""
    stream = io.BytesIO()
    style = getSampleStyleSheet()["Normal"]
    flow = []
    for page in range(pages):
        flow += [Paragraph(TEXT + link.format(page * 7 + n), style) for n in range(7)]
        flow.append(PageBreak())
    SimpleDocTemplate(stream).build(flow)
    return stream.getvalue()


def bare(body: bytes) -> int:
    pdf = pypdfium2.PdfDocument(body)
    size = sum(len(page.get_textpage().get_text_range()) for page in pdf)
    pdf.close()
    return size


def ours(body: bytes) -> int:
    document = read_document(body, media_type=PDF, content_type="", url="http://a.example/a.pdf")
    return len(document.text)


def seconds(measured, body: bytes) -> float:
    before = time.process_time()
    measured(body)
    return time.process_time() - before


def main() -> None:
    bodies = {name: Path(name).read_bytes() for name in sys.argv[1:]} or {
        "200 pages": made(200, "page {}"),
        "200 pages, 1,400 links": made(200, '<a href="http://a.example/{}">here</a>'),
    }
    for name, body in bodies.items():
        pairs = [(seconds(bare, body), seconds(ours, body)) for _ in range(ROUNDS)]
        ratio = statistics.median(second / first for first, second in pairs)
        least = [min(column) * 1000 for column in zip(*pairs, strict=True)]
        print(f"{name}: bare {least[0]:.1f} ms, read {least[1]:.1f} ms, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()

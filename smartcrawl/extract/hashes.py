"""The hashes that decide "modified" and "clone"."""

from __future__ import annotations

from hashlib import sha256

from smartcrawl.model.documents import Document
from smartcrawl.rules.shield import text_to_compare, text_without_ids


def body_hash(body: bytes) -> bytes:
    """Return the SHA-256 of the body after content-encoding: 32 bytes.

    Source: RD-19.
    """
    return sha256(body).digest()


def text_hash(document: Document) -> bytes:
    """Return the SHA-256 of the text, headings included, in UTF-8: 32 bytes.

    Source: R0-32, R0-46.
    """
    return sha256(_utf8(document.text)).digest()


def compared_text(document: Document) -> str:
    """Return the part of a text by which pages are compared (``rules.shield.text_to_compare``)."""
    return text_to_compare((section.heading, section.text) for section in document.sections)


def text_hash_without_ids(document: Document) -> bytes:
    """Return the SHA-256 of the compared text with one sign in place of each id: 32 bytes.

    Source: ADR 37.
    """
    return sha256(_utf8(text_without_ids(compared_text(document)))).digest()


def document_content_hash(document: Document) -> bytes:
    """Return the SHA-256 over every field that is indexed: 32 bytes.

    The fields are, in this order: title, description, language, sections (level, heading, text),
    images (source, text, width, height, context; an unknown size is empty). Each field is preceded
    by its length and each list by its count, so that no text can pass for another field. Links,
    canonical, robots, charset, type and keywords do not count.

    Source: R0-32, R0-46, G-21; ADR 129.
    """
    parts = [document.title, document.description, document.language, str(len(document.sections))]
    for section in document.sections:
        parts += (str(section.level), section.heading, section.text)
    parts.append(str(len(document.images)))
    for image in document.images:
        width, height = (str(side or "") for side in (image.width, image.height))
        parts += (image.src, image.alt, width, height, image.context)
    digest = sha256()
    for part in parts:
        field = _utf8(part)
        digest.update(len(field).to_bytes(8, "big") + field)
    return digest.digest()


def _utf8(text: str) -> bytes:
    return text.encode(errors="surrogatepass")

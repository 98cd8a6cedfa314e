"""Messages (EML), by the standard library: subject, sender, date, and the text to be read."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Final, cast

from smartcrawl.extract import html
from smartcrawl.extract.formats.common import clean_document_text, corrupt_document, parsed_document
from smartcrawl.extract.links import Reference
from smartcrawl.model.documents import Document, Section
from smartcrawl.model.placed_spans import without_ids

_SHOWN: Final = ("From", "To", "Cc", "Date")
_MAX_HEADER: Final = 1_000  #: characters
_MESSAGE: Final = "message/rfc822"
_MAX_DEPTH: Final = 10  #: messages in each other that are read


def read_format(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a message: its headers for people, its text, and messages in it.

    Where it has its text as plain text and as a page, the plain text counts. Names of attached
    files are text, their content is not read.

    Source: RFC 5322, RFC 2046.
    """
    message = message_from_bytes(body, policy=policy.default)
    sections: list[Section] = []
    references: list[Reference] = []
    _read(message, url, sections, references, 1)
    if not any(section.text for section in sections) and not message.keys():
        raise corrupt_document("the message has neither headers nor a text")
    return parsed_document(
        url=url, text=sections, title=_header(message, "Subject"), references=references
    )


def _read(
    message: EmailMessage,
    url: str,
    sections: list[Section],
    references: list[Reference],
    level: int,
) -> None:
    shown = [f"{name}: {value}" for name in _SHOWN if (value := _header(message, name))]
    sections.append(Section(min(level, 6), _header(message, "Subject"), "\n".join(shown)))
    found = message.get_body(("plain", "html"))
    if found is not None:
        content = found.get_payload(decode=True)
        header = f"{found.get_content_type()}; charset={found.get_content_charset('')}"
        assert isinstance(content, bytes), "it has one part"
        if found.get_content_type() == "text/html":
            page = html.parse_html(content, content_type=header, url=url)
            sections += without_ids(page).sections
            references += [
                Reference(link.url, link.type, link.nofollow, link.anchor) for link in page.links
            ]
        else:
            sections += html.parse_plain_text(content, content_type=header, url=url).sections
    names = []
    is_inner = message.get_content_type() == _MESSAGE
    for part in [message] if is_inner else message.iter_attachments():
        if part.get_content_type() == _MESSAGE and level < _MAX_DEPTH:
            inner = part.get_payload()
            for one in inner if isinstance(inner, list) else []:
                _read(cast(EmailMessage, one), url, sections, references, level + 1)
        elif name := part.get_filename():
            names.append(clean_document_text(" ".join(name.split())))
    if names:
        sections.append(Section(0, "", "\n".join(names)))


def _header(message: EmailMessage, name: str) -> str:
    """Return a header as one line; one that cannot be read is empty."""
    try:
        value = str(message.get(name, ""))
    except (ValueError, LookupError, AttributeError, TypeError, IndexError):
        return ""
    return clean_document_text(" ".join(value.split()))[:_MAX_HEADER]

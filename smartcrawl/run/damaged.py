"""Bodies of status 200 that a fault of the server damaged: they replace no stored page."""

from __future__ import annotations

from typing import Final

from smartcrawl.extract.sniff import is_garbled_text
from smartcrawl.model.pages import Visit
from smartcrawl.rules.model import Fault, Outcome, Standing

BLANK: Final = b"\0\t\n\f\r "  #: bytes of an empty body

_EMPTY: Final = "status 200 with an empty body: the stored page stays"
_GARBLED: Final = (
    "the body is binary, and its Content-Type is that of a text: is it packed without a"
    " Content-Encoding, or twice?"
)


def damage_of_body(visit: Visit, body: bytes, *, forced: bool) -> tuple[Fault, str] | None:
    """Return why a body is not that of its page, or None.

    ``forced``: an order of the operator accepts an empty body, and never a garbled one.

    Source: ADR 12, 20.
    """
    if not forced and _is_emptied(visit, body):
        return Fault.EMPTY, _EMPTY
    held = visit.page.state.standing is Standing.HELD
    content_type = visit.answer.content_type or ""
    if not visit.extracted_again and is_garbled_text(content_type, body, held=held):
        return Fault.BAD_ENCODING, _GARBLED
    return None


def _is_emptied(visit: Visit, body: bytes) -> bool:
    """Whether a 200 has an empty body, and the stored page had another one."""
    page = visit.page
    return (
        visit.outcome is Outcome.CHANGED
        and page.state.standing is Standing.HELD
        and not body.strip(BLANK)
        and visit.parsed.body_hash != page.record.body_hash
    )

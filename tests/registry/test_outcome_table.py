"""The unified outcome table, U-01 to U-20, from each previous state: how its rows are played.

A past is a state into which real runs bring the page (`PASTS`). The next run answers it as a row of
the table says. A cell tells which of the page's facts that changes: first by the visit, before the
sweep, then by the end of the run. What it does not name must stay as it was.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from smartcrawl.extract.hashes import document_content_hash
from smartcrawl.model.documents import Link
from smartcrawl.model.pages import Visit
from smartcrawl.registry.pack import pack_stored_links, pack_stored_numbers, unpack_stored_links
from smartcrawl.rules.http import http_conditional_headers, outcome_of_http_status
from smartcrawl.rules.model import Fault, Outcome, RemovalRule, RunState, Standing, Status, Word
from tests.index.asking import search
from tests.registry.build import LONG, NOW, Desk, closing, document, index_is_sound

A = "http://a.example/the/page"
TARGET, ORIGINAL = "http://a.example/target", "http://a.example/o"
#: Pages that answer 304 in every run; search shows the long text under the original.
OTHERS = {TARGET: "target", ORIGINAL: LONG, "http://a.example/hub": "hub"}
TEXTS = {"old": "albatross", "new": "bittern", "long": LONG}
DAY = 86_400

Facts = dict[str, Any]
Cell = tuple[Facts, Facts]


@dataclass(frozen=True)
class Reply:
    """What the page answers: an HTTP status, an extended one, or None where it may not be asked.

    `text` and `mark` name what the body says, and which validators and links come with it.
    """

    status: int | None
    text: str = ""
    mark: str = "new"
    noindex: bool = False
    to: str | None = None  #: Location
    scoped: bool = True  #: whether `to` is in scope
    canonical: str | None = None  #: what the body names
    retry_after: int | None = None


OLD = Reply(200, "old", "old")
PASTS: dict[str, tuple[Reply, ...]] = {
    "none": (),
    "held": (OLD,),
    "lost": (OLD, Reply(404)),
    "gone": (OLD, Reply(404), Reply(404), Reply(404)),
    "redirect": (OLD, Reply(301, to=TARGET)),
    "links": (Reply(406, "old", "old"),),
    "error": (Reply(404),),
}


# What happens


def begin(desk: Desk) -> int:
    """Begin the next run, in which all other pages answer 304; return its time."""
    if desk.value("SELECT max(state) FROM run WHERE no = ?", (desk.run.no,)) == RunState.SWEPT:
        desk.open(now=NOW + desk.run.no * DAY)
    now = NOW + (desk.run.no - 1) * DAY
    if desk.run.no == 1:
        desk.write(*(desk.visit(url, text) for url, text in OTHERS.items()), now=now)
    else:
        desk.reach(*OTHERS)
        desk.write(touched=[desk.number(url) for url in OTHERS], now=now)
    return now


def asked(desk: Desk, reply: Reply, now: int) -> Visit:
    """The page's visit, classified as the spider and ExtractPipeline do."""
    if desk.value("SELECT no FROM record WHERE url = ?", (A,)) is None:
        desk.add(A, now=now)
    else:
        desk.reach(A)
    page = desk.page(A)
    validators = http_conditional_headers(
        page.record.etag, page.record.last_modified, trusted=page.state.standing > 0
    )
    status, error = reply.status, None if reply.status in (200, 304, 301, 302) else "why"
    if status is None:
        outcome, error = Outcome.EXCLUDED, "disallowed by robots.txt"
    elif status >= Fault.BAD_RESPONSE:
        outcome = Fault(status).outcome
    else:
        outcome = outcome_of_http_status(status, conditional=bool(validators))
    if outcome is Outcome.BAD_HEADER and status == 304:
        status, error = int(Fault.UNSOLICITED_304), "why"
    text = TEXTS.get(reply.text, "")
    if outcome is Outcome.CHANGED and reply.noindex:
        outcome, error = Outcome.NOT_ACCEPTABLE, "why"
    elif outcome is Outcome.CHANGED and page.state.standing is Standing.HELD:
        equal = desk.readers.contents.content_hash(page.no) == document_content_hash(document(text))
        outcome = Outcome.SAME if equal else outcome
    document_fields = {"canonical": reply.canonical}
    named = desk.number(reply.canonical) if reply.canonical else None
    aside = (
        page.state.standing is Standing.LINKS
        and named is not None
        and named == page.record.canonical_no
    )
    if outcome is Outcome.CHANGED and aside and desk.readers.pages.leads_to_indexed(named, page.no):
        outcome = Outcome.ALIAS
    visit = desk.visit(
        A,
        text,
        outcome=outcome,
        status=status,
        error=error,
        document_fields=document_fields,
        canonical_no=named,
    )
    if outcome is Outcome.NOT_MODIFIED:
        visit.answer.etag, visit.answer.last_modified = page.record.etag, page.record.last_modified
    elif visit.parsed.document is not None:
        visit.answer.etag = visit.answer.last_modified = reply.mark
        links = [Link(f"http://a.example/{reply.mark}", "", "hyperlink", False)]
        visit.parsed.links, visit.parsed.links_count = pack_stored_links(links), 1
    elif reply.to is not None:
        visit.answer.location, visit.error = reply.to, None
        visit.parsed.links = pack_stored_links([Link(reply.to, "", "redirect", False)])
        visit.parsed.links_count = 1
        visit.parsed.targets = pack_stored_numbers([desk.number(reply.to)] if reply.scoped else [])
    visit.answer.retry_after = reply.retry_after
    return visit


def answers(desk: Desk, reply: Reply | None) -> None:
    """A whole run; None: no link leads to the page."""
    now = begin(desk)
    if reply is not None:
        desk.write(asked(desk, reply, now), now=now)
    desk.seal(now=now)


def bring(desk: Desk, past: str) -> None:
    """Bring the page into one of PASTS."""
    for reply in PASTS[past] or (None,):
        answers(desk, reply)


def check(desk: Desk, past: str, reply: Reply | None, cell: Cell, **choices: object) -> None:
    """From `past`, let the page answer `reply`, and compare what changes with the cell.

    Without a reply no link leads to the page.

    `choices` are those of the run in which it answers.
    """
    bring(desk, past)
    began = NOW + desk.run.no * DAY
    before = facts(desk, began)
    desk.closing = closing(**choices)
    now = begin(desk)

    if reply is not None:
        desk.write(asked(desk, reply, now), now=now)
        before = before | {"known": before["known"] or "now"}

    visited = facts(desk, began)
    assert visited == before | cell[0]

    desk.seal(now=now)

    assert facts(desk, began) == visited | cell[1]
    assert index_is_sound(desk.connection)


def cells(
    number: str, *, broken: Mapping[str, str] | None = None, **by_past: Cell | Facts
) -> pytest.MarkDecorator:
    """The cells of a row; a cell of facts alone is one to which the end of the run adds nothing.

    `broken` tells why the product does not do what a cell says.
    """
    why = broken or {}
    return pytest.mark.parametrize(
        ("past", "cell"),
        [
            pytest.param(
                past,
                cell if isinstance(cell, tuple) else (cell, {}),
                id=f"{number}-from-{past}",
                marks=[pytest.mark.xfail(strict=True, reason=why[past])] if past in why else [],
            )
            for past, cell in by_past.items()
        ],
    )


# What came of it

_FACTS = """
SELECT r.*, s.* FROM record r JOIN state s USING (no) WHERE r.url = ?
"""
_REMOVED = "SELECT rule FROM evidence WHERE record = ? ORDER BY no"
_PROPOSED = "SELECT rule FROM candidate WHERE no = ?"
PENDING: Facts = {
    "status": Status.PENDING, "standing": Standing.BARE, "word": None, "http": None,
    "effective": None, "lost": 0, "gone": 0, "unchanged": 0, "errors": 0, "wait": None,
    "message": None, "validators": None, "hashes": None, "shown": None, "links": None,
    "redirect": None, "original": None, "proposed": None, "removed": [], "known": None,
    "checked": None, "seen": None, "changed": None, "indexed": None,
}  # fmt: skip


def facts(desk: Desk, began: int) -> Facts:
    """What is known of the page; times are `before` and `now`, the run that `began` then."""
    cursor = desk.connection.execute(_FACTS, (A,))
    found = cursor.fetchone()
    if found is None:
        return PENDING
    names = [column[0] for column in cursor.get_description()]
    row = dict(zip(names, found, strict=True))
    no, run = row["no"], 1 + (began - NOW) // DAY
    assert row["etag"] == row["last_modified"]
    checked, seen = row["last_checked"] or None, row["seen_run"] or None
    moment = {None: None, False: "before", True: "now"}
    proposed = desk.value(_PROPOSED, (no,))
    links = desk.value("SELECT raw FROM links WHERE no = ?", (no,))
    return {
        "status": Status(row["status"]),
        "standing": Standing(row["standing"]),
        "word": None if row["outcome"] is None else Word(row["outcome"]),
        "http": row["http_status"],
        "effective": row["effective_status"],
        "lost": row["lost_count"],
        "gone": row["gone_count"],
        "unchanged": row["unchanged_count"],
        "errors": row["error_count"],
        "wait": row["next_visit"] and checked and row["next_visit"] - checked,
        "message": row["error_message"],
        "validators": row["etag"],
        "hashes": hashes(desk, row),
        "shown": shown(desk),
        "links": links and [link.url.rpartition("/")[2] for link in unpack_stored_links(links)],
        "redirect": row["redirect_target"],
        "original": desk.value("SELECT url FROM record WHERE no = ?", (row["duplicate_of"],)),
        "proposed": None if proposed is None else RemovalRule(proposed),
        "removed": [RemovalRule(rule) for (rule,) in desk.rows(_REMOVED, (no,))],
        "known": moment[row["first_seen"] >= began],
        "checked": moment[checked and checked >= began],
        "seen": moment[seen and seen >= run],
        "changed": moment[row["last_changed"] and row["last_changed"] >= began],
        "indexed": moment[row["last_indexed"] and row["last_indexed"] >= began],
    }  # fmt: skip


def hashes(desk: Desk, row: Facts) -> str | None:
    """The name of the text whose hashes the record has: all three of them, or none."""
    entry = 'SELECT "contentHash", "textHash" FROM "IngestItems" WHERE "normalizedSource" = ?'
    [(content, text)] = desk.rows(entry, (A,))
    assert (content is None) is (text is None) is (row["body_hash"] is None)
    wanted = {
        f"sha256:{document_content_hash(document(t)).hex()}": name for name, t in TEXTS.items()
    }
    return None if content is None else wanted[content]


def shown(desk: Desk) -> str | None:
    """The name of the text under which search finds the page, and whether it is marked lost."""
    found = [
        f"{name}, lost" if hit.lost else name
        for name, text in TEXTS.items()
        for hit in search(desk.connection, text.partition(" ")[0], limit=1000)
        if hit.url == A
    ]
    assert len(found) <= 1
    return found[0] if found else None


#: What an answer leaves that was had in this run.
NOW_SEEN = {"checked": "now", "seen": "now"}
#: What ends every error.
WELL = {"lost": 0, "gone": 0, "errors": 0, "message": None, "wait": DAY, "redirect": None}
#: A new body that is indexed.
INDEXED = NOW_SEEN | WELL | {
    "status": Status.INDEXED, "standing": Standing.HELD, "http": 200, "effective": 200,
    "unchanged": 0, "validators": "new", "hashes": "new", "shown": "new", "links": ["new"],
    "changed": "now", "indexed": "now",
}  # fmt: skip
NEW, MODIFIED = {"word": Word.NEW}, {"word": Word.MODIFIED}
UNCHANGED = NOW_SEEN | WELL | {"status": Status.INDEXED, "word": Word.UNCHANGED, "unchanged": 1}


#: What every removal takes away; the record stays.
NOTHING_HELD = {
    "lost": 0, "gone": 0, "unchanged": 0, "validators": None, "hashes": None, "shown": None,
    "original": None, "proposed": None,
}  # fmt: skip


def gone_by(rule: RemovalRule, *, links: list[str] | None = None, **facts: object) -> Facts:
    """The end of a page that a sweep removed."""
    standing = (
        Standing.LINKS
        if rule in (RemovalRule.NOT_ACCEPTABLE, RemovalRule.CANONICAL)
        else Standing.BARE
    )
    return NOTHING_HELD | {"standing": standing, "links": links, "removed": [rule]} | facts


# The states that it starts from

KNOWN = PENDING | {"known": "before", "checked": "before", "seen": "before"}
HELD = KNOWN | {
    "status": Status.INDEXED, "standing": Standing.HELD, "word": Word.NEW, "http": 200,
    "effective": 200, "wait": DAY, "validators": "old", "hashes": "old", "shown": "old",
    "links": ["old"], "changed": "before", "indexed": "before",
}  # fmt: skip
STATES: dict[str, Facts] = {
    "none": PENDING,
    "held": HELD,
    "lost": HELD | {
        "status": Status.ERROR, "word": Word.LOST, "http": 404, "lost": 1, "gone": 1, "errors": 1,
        "wait": 600, "message": "why", "shown": "old, lost",
    },
    "gone": HELD | {
        "status": Status.GONE, "standing": Standing.BARE, "word": Word.GONE, "http": 404,
        "effective": 404, "errors": 3, "wait": 2400, "message": "why", "validators": None,
        "hashes": None, "shown": None, "links": None, "removed": [RemovalRule.GONE],
    },
    "redirect": HELD | {
        "status": Status.CRAWLED, "standing": Standing.BARE, "word": Word.REDIRECTED, "http": 301,
        "effective": 301, "validators": None, "hashes": None, "shown": None, "links": ["target"],
        "redirect": TARGET, "removed": [RemovalRule.REDIRECT],
    },
    "links": KNOWN | {
        "status": Status.CRAWLED, "standing": Standing.LINKS, "word": Word.EXCLUDED, "http": 406,
        "effective": 406, "wait": DAY, "message": "why", "validators": "old", "hashes": "old",
        "links": ["old"], "changed": "before",
    },
    "error": KNOWN | {
        "status": Status.ERROR, "word": Word.FAILED, "http": 404, "effective": 404, "gone": 1,
        "errors": 1, "wait": 600, "message": "why",
    },
}  # fmt: skip


@pytest.mark.covers("U-01", "U-06", "U-07", "U-08", "U-09", "U-11", "RD-02")
@pytest.mark.parametrize("past", PASTS)
def test_each_past_leaves_the_page_in_its_state(desk: Desk, past: str):
    bring(desk, past)

    assert facts(desk, NOW + desk.run.no * DAY) == STATES[past]

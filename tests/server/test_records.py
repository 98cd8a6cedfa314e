"""Records by number and address: the story of ``why`` as the API answers it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.registry.connection import transaction
from smartcrawl.rules.model import Outcome
from smartcrawl.server.explained.answers import AddressStory, RecordStory
from tests.registry.build import LATER, NOW, Desk
from tests.server.api_client import application, ask, error_of

HOME, GUIDE, OLD = (f"https://docs.example.com/{name}" for name in ("", "guide", "old"))
SOURCES = (
    '[sources.docs]\nseeds = ["https://docs.example.com/"]\nexcluded_patterns = ["/private/"]\n'
)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A source of three pages; the last one was lost in the second run."""
    (tmp_path / "sources.toml").write_text(SOURCES)
    desk = Desk(tmp_path / "registry.db")
    desk.open(now=NOW)
    for url in (HOME, GUIDE, OLD):
        desk.index(url, f"a lantern at {url}")
    desk.seal(now=NOW)
    desk.open(now=LATER)
    same = [desk.visit(url, outcome=Outcome.NOT_MODIFIED, status=304) for url in (HOME, GUIDE)]
    lost = desk.visit(OLD, outcome=Outcome.NOT_FOUND, status=404)
    desk.write(
        *same, lost, reached=dict.fromkeys(map(desk.number, (HOME, GUIDE, OLD)), 0), now=LATER
    )
    desk.seal(now=LATER)
    yield desk
    desk.close()


def read(folder: Path, path: str, **given: Any) -> dict[str, Any]:
    app = application(folder, clock=lambda: float(LATER + 7_200))
    answer = ask(app, "GET", f"/api/v1/{path}", **given)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_a_record_is_told_in_one_sentence_with_its_events(desk: Desk, tmp_path: Path):
    report = read(tmp_path, f"records/{desk.number(GUIDE)}")

    RecordStory.model_validate(report)
    assert report["sentence"] == (
        "Stored; last visit 2 h ago answered 304; next visit in the next run that reaches it,"
        " due in 22 h."
    )
    assert [event["event"] for event in report["history"]] == ["discovered"]
    assert report["record"]["url"] == GUIDE
    assert (report["linksIn"], report["text"]) == (None, None)


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (Outcome.NOT_FOUND, 404, "its server does not have it"),
        (Outcome.HTTP_ERROR, 403, "its server did not hand it out"),
        (Outcome.TRANSIENT, 503, "its server could not answer"),
        (
            Outcome.NOT_ACCEPTABLE,
            406,
            "it is not to be indexed, or has nothing to index; its links are stored",
        ),
    ],
)
def test_a_page_that_never_answered_says_why_in_everyday_words(
    desk: Desk, tmp_path: Path, outcome: Outcome, status: int, reason: str
):
    desk.open(now=LATER)
    lacking = desk.visit(f"{HOME}never", outcome=outcome, status=status)
    desk.write(lacking, reached={desk.number(f"{HOME}never"): 1}, now=LATER)
    desk.seal(now=LATER)

    report = read(tmp_path, f"records/{desk.number(f'{HOME}never')}")

    assert report["sentence"].startswith(
        f"Not searchable: {reason}; last visit 2 h ago answered {status}; next visit"
    )


def test_the_text_of_a_record_is_that_of_its_index(desk: Desk, tmp_path: Path):
    report = read(tmp_path, f"records/{desk.number(GUIDE)}", params={"text": "true"})

    assert "a lantern at" in report["text"]


def test_a_lost_page_says_that_its_copy_stays_and_what_would_remove_it(desk: Desk, tmp_path: Path):
    report = read(tmp_path, f"records/{desk.number(OLD)}")

    assert report["sentence"].startswith(
        "Stored: the last good copy stays searchable; last visit 2 h ago answered 404"
    )
    assert [event["event"] for event in report["history"]] == ["discovered", "changed"]
    assert [way["rule"] for way in report["removal"] if way["underWay"]] == ["gone"]


def test_pages_that_lead_there_are_looked_for_on_demand(desk: Desk, tmp_path: Path):
    number = desk.number(GUIDE)
    with transaction(desk.connection):
        desk.connection.execute(
            "UPDATE record SET canonical_no = ? WHERE no = ?", (number, desk.number(OLD))
        )

    report = read(tmp_path, f"records/{number}", params={"links_in": "true"})

    assert report["linksIn"] == {
        "count": 1, "shown": [{"no": desk.number(OLD), "url": OLD}], "whole": True,
    }  # fmt: skip


def test_an_address_leads_to_its_record(desk: Desk, tmp_path: Path):
    report = read(tmp_path, "records", params={"url": f"{GUIDE}#part"})

    AddressStory.model_validate(report)
    assert [(one["no"], one["source"]) for one in report["records"]] == [
        (desk.number(GUIDE), "docs")
    ]
    assert report["sentence"].startswith("docs: Stored; last visit 2 h ago")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (
            "https://docs.example.com/new",
            "Not known. It is in the scope of docs; a run requests it once a page links to it.",
        ),
        ("https://docs.example.com/private/x", "Not known. No source has it in its scope. docs"),
        ("https://elsewhere.example/", "Not known. No source has it in its scope."),
    ],
)
def test_an_unknown_address_says_what_it_would_be_refused_for(
    desk: Desk, tmp_path: Path, url: str, sentence: str
):
    report = read(tmp_path, "records", params={"url": url})

    AddressStory.model_validate(report)
    assert report["records"] == []
    assert report["sentence"].startswith(sentence)


def test_an_unknown_address_has_near_misses_with_their_records(desk: Desk, tmp_path: Path):
    report = read(tmp_path, "records", params={"url": "http://www.docs.example.com/guide/?a=1"})

    assert report["nearMisses"] == [{"no": desk.number(GUIDE), "source": "docs", "url": GUIDE}]


@pytest.mark.parametrize(
    ("path", "status", "field"),
    [
        ("records/999", 404, None),
        ("records/0", 400, "record_id"),
        ("records/1_0", 400, "record_id"),
        ("records/1?links_in=yes", 400, "links_in"),
        ("records", 400, "url"),
        ("records?url=", 400, "url"),
        ("records?url=no%20address", 400, "url"),
        ("records?url=a&url=b", 400, "url"),
    ],
)
def test_what_is_no_record_is_refused(
    desk: Desk, tmp_path: Path, path: str, status: int, field: str | None
):
    answer = ask(application(tmp_path), "GET", f"/api/v1/{path}")

    assert answer.status_code == status
    assert error_of(answer)["details"].get("field") == field


def test_a_broken_table_of_sources_is_named_without_its_place(desk: Desk, tmp_path: Path):
    (tmp_path / "sources.toml").write_text("[sources.docs\n")

    answer = ask(application(tmp_path), "GET", "/api/v1/records/1")

    assert answer.status_code == 400
    assert "sources.toml cannot be read" in error_of(answer)["details"]["reason"]
    assert str(tmp_path) not in answer.text

"""Pages of what changed: the list, a difference, and the versions of a record."""

from pathlib import Path

import pytest

from smartcrawl.registry.connection import transaction
from tests.registry.build import LATER, Desk
from tests.server.api_client import application
from tests.server.pages.browsing import Visitor, words
from tests.server.test_change_routes import GUIDE, HASH, NEW, OLD, desk, stored

__all__ = ["desk"]  # a fixture
HOSTILE = "<img src=x onerror=alert(1) hx-get=/x> glows"


@pytest.fixture
def visitor(desk: Desk, tmp_path: Path) -> Visitor:
    run = {"snapshot_store": str(tmp_path / "snapshots")}
    clock = lambda: float(LATER + 7_200)  # noqa: E731
    return Visitor(application(tmp_path, run=run, clock=clock, pages_limit=10**9))


def keep(desk: Desk, folder: Path, before: str, after: str) -> None:
    """Keep two versions of the guide."""
    old, new = stored(desk, folder, before), stored(desk, folder, after)
    with transaction(desk.connection):
        desk.connection.execute("UPDATE change SET body = ?", (old,))
        desk.connection.execute("UPDATE record SET body_hash = ? WHERE url = ?", (new, GUIDE))


def test_changes_are_listed_by_run(visitor: Visitor):
    page = visitor.page("/changes")

    rows = [[words(cell) for cell in row] for row in page.iter("tr")][1:]
    assert [row[0] for row in rows] == ["new", "modified", "lost"]
    assert [row[1] for row in rows] == [NEW, GUIDE, OLD]
    assert "+2 -" in rows[1][2]
    links = page.xpath("//td//a[text()='what changed']/@href")
    assert links == [f"/changes/{HASH}?source=docs&before=1&after=2"]
    assert page.xpath("//a[@type='application/atom+xml']/@href") == ["/api/v1/changes.atom"]
    assert page.xpath("//nav//a[@aria-current='page']/text()") == ["Changes"]


def test_source_and_time_choose_what_is_listed(visitor: Visitor):
    assert len(visitor.page("/changes?since=2000-01-01").xpath("//h2")) == 2
    some = visitor.page("/changes?source=docs&since=2")
    assert words(some.xpath("//p[@role='status' and not(@hidden)]")[0]) == "Nothing changed."
    wrong = visitor.page("/changes?since=yesterday", 400)
    assert "is not a run or a time" in words(wrong.xpath("//p[@id='since-error']")[0])
    assert visitor.get("/changes?source=nobody").status_code == 400


def test_a_difference_is_shown_beside_and_inline(desk: Desk, tmp_path: Path, visitor: Visitor):
    keep(desk, tmp_path, "it glows red", "it glows blue")
    path = f"/changes/{HASH}?source=docs&before=1&after=2"

    beside, inline = visitor.page(path), visitor.page(f"{path}&view=inline")

    for page, kind in ((beside, "diff side"), (inline, "diff")):
        (found,) = page.xpath("//div[contains(@class, 'diff')]")
        assert found.get("class") == kind
        assert [words(one) for one in found.iter("del", "ins")] == ["it glows red", "it glows blue"]
        assert [words(one) for one in found.iter("em")] == ["red", "blue"]
    assert inline.xpath("//a[text()='Show it side by side']/@href") == [
        f"/changes/{HASH}?source=docs&before=1&after=2"
    ]


def test_crawled_text_stays_text(desk: Desk, tmp_path: Path, visitor: Visitor):
    escaped = HOSTILE.replace("<", "&lt;")
    keep(desk, tmp_path, f"{escaped} red", f"{escaped} blue")

    page = visitor.page(f"/changes/{HASH}")

    assert not page.xpath("//main//img | //*[@hx-get='/x'] | //*[@onerror]")
    assert HOSTILE in words(page.xpath("//ins")[0])
    assert all(bdi.get("hx-disable") is not None for bdi in page.xpath("//ins//bdi | //del//bdi"))


def test_a_version_that_is_not_kept_says_what_keeps_it(visitor: Visitor):
    page = visitor.page(f"/changes/{HASH}", 404)

    assert "SNAPSHOT_RETENTION_DAYS" in words(page.xpath("//main")[0])


def test_a_record_has_its_versions(desk: Desk, tmp_path: Path, visitor: Visitor):
    number = desk.number(GUIDE)
    path = "//h2[text()='Versions']/following-sibling::ol[1]"

    without = visitor.page(f"/records/{number}")
    keep(desk, tmp_path, "it glows red", "it glows blue")
    versions = visitor.page(f"/records/{number}").xpath(path)[0]

    assert "run 2: " in words(versions)
    assert not without.xpath(f"{path}//a[text()='what changed']")
    links = versions.xpath(".//a[text()='what changed']/@href")
    assert links == [f"/changes/{HASH}?source=docs&before=1&after=2"]
    assert not visitor.page(f"/records/{desk.number(NEW)}").xpath(path)

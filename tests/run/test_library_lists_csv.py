"""The CSV of a list: which rows and which date it has."""

import json
from pathlib import Path

import pytest

from smartcrawl.extract.library.lists import read_csv_of_list
from smartcrawl.model.library import LibraryItem, LibraryRow
from smartcrawl.registry.library.folder import LibraryFolder
from smartcrawl.run.library.files import ListOriginal

PLACE = "01_originals/tasks.csv"
DATE = 1_700_000_000_000_000


def listed(no: int, modified: int) -> LibraryItem:
    content = {"columns": [["Title", "Title", "text"]], "fields": {"ID": no, "Title": f"task {no}"}}
    url = f"/sites/x/Lists/tasks/{no}"
    return LibraryItem(no, str(no), f"{no}.md", url, 1, modified, url, json.dumps(content))


def stored(no: int, modified: int) -> LibraryRow:
    return LibraryRow(no, no, str(no), f"{no}.md", "/", 1, modified, PLACE, modified, None, None)


@pytest.mark.parametrize(("kept", "date"), [(DATE + 5, DATE + 5), (DATE - 5, DATE)])
def test_the_date_of_a_list_is_the_latest_of_its_rows_those_that_are_kept_included(
    kept: int, date: int, tmp_path: Path
):
    """An item that the listing lacks keeps its row until its removal is decided."""
    folder = LibraryFolder(tmp_path)
    before = ListOriginal(folder, PLACE)
    for item in (listed(1, DATE), listed(2, kept)):
        before.add(item)
    before.write([])

    now = ListOriginal(folder, PLACE)
    now.add(listed(1, DATE))
    now.write([stored(1, DATE), stored(2, kept)])

    facts = folder.facts(PLACE)
    assert facts is not None
    assert facts[1] == date
    assert [row.id for row in read_csv_of_list(folder.read(PLACE))] == [1, 2]

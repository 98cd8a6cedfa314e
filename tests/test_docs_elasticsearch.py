"""What docs/elasticsearch.md says of the index is compared with the code."""

import re
from pathlib import Path

from smartcrawl.index.elasticsearch.documents import WEIGHTS, analyzer_suffix, index_mappings
from smartcrawl.index.elasticsearch.faults import FORBIDDEN, PASSING
from smartcrawl.index.elasticsearch.opening import CLUSTER_RIGHTS, INDEX_RIGHTS, IndexNames

PAGE = Path(__file__).parent.parent / "docs" / "elasticsearch.md"


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the rows of all tables below a heading, without their own."""
    part = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    cells = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] not in ("---", "name", "right", "field", "answer")]


def test_every_name_and_every_right_is_told():
    names = IndexNames.of("smartcrawl")
    told = rows("What is made there")

    assert {row[0] for row in told[:5]} == {
        names.search, names.write, names.meta, names.template, names.numbered(1),
    }  # fmt: skip
    of = "smartcrawl`, `smartcrawl-*"
    assert told[5:] == [
        *[[right, "the cluster"] for right in CLUSTER_RIGHTS],
        *[[right, of] for right in INDEX_RIGHTS],
    ]


def test_every_field_is_told_with_its_type():
    fields = {name: field["type"] for name, field in index_mappings()["properties"].items()}

    assert {row[0]: row[1] for row in rows("Fields")} == fields
    text = PAGE.read_text(encoding="utf-8")
    for parent in ("chunks", "images"):
        (meaning,) = [row[2] for row in rows("Fields") if row[0] == parent]
        inner = set(index_mappings()["properties"][parent]["properties"])
        if parent == "chunks":
            inner = {name for name in inner if "_" not in name}
        assert set(re.findall(r"`([A-Za-z]+)`", f"`{meaning}`")) >= inner
    assert [analyzer_suffix(language) for language in ("ja", "ko", "nb")] == ["_zh", "_zh", "_no"]
    for name, weight in WEIGHTS.items():
        assert f'"chunks.{name}_en{f"^{weight}" if weight > 1 else ""}"' in text


def test_a_content_group_means_the_same_in_the_index_and_in_the_registry():
    lines = (PAGE.parent / "cli.md").read_text(encoding="utf-8").splitlines()
    (listed,) = [line.strip("| ").split(" | ")[1] for line in lines if "`contentGroupId`" in line]
    (held,) = [row[2] for row in rows("Fields") if row[0] == "contentGroupId"]

    assert held == listed


def test_every_status_is_documented():
    documented = [
        set(map(int, re.findall(r"\b[45]\d\d\b", row[0])))
        for row in rows("What is written, and when it counts")
    ]

    assert documented == [set(), {409}, set(PASSING), {400, 413}, {413, 429}, set(FORBIDDEN)]

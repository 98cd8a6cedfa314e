"""What the benchmarks share: nobody would notice a figure that is computed in a wrong way."""

import argparse
import json
import runpy
import shutil
import sys
from pathlib import Path

import pytest

from bench import measure, report, site
from bench.questions import KINDS, SETS, in_first, ndcg, questions

BENCH = Path(__file__).parent.parent / "bench"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
ROUNDS = [
    {"ours": {"ms": 1.0, "wall": 2.0}, "peer": {"ms": 2.0, "wall": 1.0}},
    {"ours": {"ms": 3.0, "wall": 9.0}, "peer": {"ms": 4.0, "wall": 3.0}},
    {"ours": {"ms": 9.0, "wall": 8.0}, "peer": {"ms": 1.0, "wall": 2.0}},
]


def figures(cpu: float) -> dict[str, float]:
    return {"pages": 10, "ms": 100 * cpu, "wall": cpu, "rss": 1.0}


def test_contenders_take_turns_and_every_other_round_goes_backwards():
    order: list[str] = []

    def contender(name: str):
        return lambda: order.append(name) or figures(len(order))

    found = measure.turns(3, {name: contender(name) for name in "abc"})

    assert "".join(order) == "abc" + "cba" + "abc"
    assert [list(each) for each in found] == [["a", "b", "c"]] * 3
    assert [each["a"]["wall"] for each in found] == [1, 6, 7]


def test_a_ratio_is_the_median_of_those_of_the_rounds():
    assert measure.ratio(ROUNDS, "ours", "peer") == 0.75
    assert measure.ratio(ROUNDS, "peer", "ours", "wall") == pytest.approx(1 / 3)
    assert measure.median(ROUNDS, "peer", "ms") == 2


def test_a_program_that_does_not_measure_itself_is_measured(tmp_path: Path):
    busy = [sys.executable, "-c", "sum(i * i for i in range(2_000_000))"]

    found = measure.watched(busy, lambda: 50)

    assert 0 < found["cpu"] <= found["wall"] * 1.5
    assert found["ms"] == 1000 * found["cpu"] / 50
    with pytest.raises(SystemExit):
        measure.watched([sys.executable, "-c", "raise SystemExit(3)"], lambda: 50)


@pytest.mark.parametrize(
    ("value", "better", "told"),
    [
        (0.5, "less", "met"),
        (0.55, "less", "missed by 10%"),
        (0.5, "more", "met"),
        (0.4, "more", "missed by 20%"),
    ],
)
def test_a_figure_says_by_how_much_it_is_missed(value: float, better: str, told: str):
    assert report.verdict({"value": value, "target": 0.5, "better": better}) == told


def test_what_people_wrote_on_the_page_stays():
    page = PAGE.read_text(encoding="utf-8")
    once = report.written(page, "first", "| one |")
    twice = report.written(once, "first", "| two |")

    before, _, rest = page.partition("<!-- bench/first -->")
    after = rest.partition("<!-- end of bench/first -->")[2]
    assert twice == f"{before}<!-- bench/first -->\n| two |\n<!-- end of bench/first -->{after}"
    assert report.written(once, "first", "| one |") == once

    added = report.written("# Page\n\nText\n", "new", "| three |")
    assert added.startswith("# Page\n\nText\n\n## `bench/new`\n")
    assert "| four |" in (again := report.written(added, "new", "| four |"))
    assert "| three |" not in again
    with pytest.raises(ValueError, match="without"):
        report.written("<!-- bench/new -->", "new", "| four |")


def test_every_benchmark_has_its_part_of_the_page_and_a_command():
    benches = runpy.run_path(str(BENCH / "all"))["BENCHES"]
    page = PAGE.read_text(encoding="utf-8")

    assert all((BENCH / command[0]).is_file() for command in benches.values())
    assert [name for name in benches if page.count(f"<!-- bench/{name} -->\n") != 1] == []
    texts = {path.name: path.read_text() for path in BENCH.iterdir() if path.suffix == ""
             and path.is_file()}  # fmt: skip
    reporting = {name for name, text in texts.items() if "Report(" in text}
    assert reporting == {command[0] for command in benches.values()}


def test_a_report_ends_with_its_figures_and_names_what_it_lacks(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    page = tmp_path / "docs" / "benchmarks.md"
    page.parent.mkdir()
    page.write_text("# Page\n")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "BENCH", tmp_path / "bench")
    asked = argparse.Namespace(quick=True, write=True)
    made = report.Report("first", asked)
    made.add("cpu_vs_peer", 0.124561, 0.1)
    made.lacks("cpu_vs_other", measure.UnavailableError("Go is not installed"))

    assert made.print() == 1
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last == {"cpu_vs_peer": {"value": 0.1246, "target": 0.1, "better": "less"}}
    text = page.read_text()
    assert "| `cpu_vs_peer` | 0.1246 | ≤ 0.1 | missed by 25% |" in text
    assert "`cpu_vs_other` was not measured: Go is not installed" in text
    assert "in the quick form: " in text
    assert "Scrapy 2." in text


def test_a_peer_that_cannot_be_had_or_built_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measure, "CACHE", tmp_path / "cache")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(measure.UnavailableError, match="Go is not installed"):
        measure.built_colly()
    with pytest.raises(measure.UnavailableError, match="apt-get install wget"):
        measure.found_wget()

    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho 'no such module' >&2\nexit 1\n")
    go.chmod(0o755)
    with pytest.raises(measure.UnavailableError, match="no such module"):
        measure.built_colly()


def test_an_edited_site_differs_in_its_share_of_pages_and_in_nothing_else(tmp_path: Path):
    root, target = tmp_path / "site", tmp_path / "edited"
    site.build(root, 40)

    assert site.edited(root, target, 0.05) == 2
    before = {path.relative_to(root): path for path in root.rglob("*.html")}
    after = {path.relative_to(target): path for path in target.rglob("*.html")}
    assert before.keys() == after.keys()
    changed = [name for name in before if before[name].read_bytes() != after[name].read_bytes()]
    assert len(changed) == 2
    times = [name for name in before if before[name].stat().st_mtime != after[name].stat().st_mtime]
    assert times == changed
    texts = {name: after[name].read_text() for name in changed}
    assert all(
        text.count("<a ") == before[name].read_text().count("<a ") for name, text in texts.items()
    )

    shutil.rmtree(target)
    site.edited(root, target, 0.05)
    assert {name: after[name].read_text() for name in changed} == texts
    assert site.edited(root, target, 0.5) == 20


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ([], (20_000, 5)),
        (["--quick"], (800, 2)),
        (["--pages", "5000", "--rounds", "3"], (5_000, 3)),
        (["--quick", "--pages", "5000", "--rounds", "1"], (800, 1)),
    ],
)
def test_no_more_pages_and_rounds_are_measured_than_asked_for(arguments, found):
    asked = measure.parser("What it measures.").parse_args(arguments)

    assert measure.extent(asked, (20_000, 5), (800, 2)) == found


# Questions


@pytest.mark.parametrize("name", SETS)
def test_half_of_the_questions_of_each_kind_are_for_tuning(name):
    found = questions(name)

    assert len({question.text for question in found}) == len(found) >= 40
    for kind in KINDS:
        tuning = [question.tuning for question in found if question.kind == kind]
        assert tuning == [place % 2 == 0 for place in range(len(tuning))]
        assert len(tuning) >= len(found) // 6


def test_answers_are_rated_by_the_places_of_the_right_pages():
    assert in_first(["a", "b", "c", "right"], {"right"}) == 0
    assert in_first(["a", "b", "right"], {"right", "other"}) == 1
    assert ndcg(["right", "a"], {"right"}) == 1
    assert ndcg(["a", "right"], {"right"}) == pytest.approx(0.63, abs=0.01)
    assert ndcg(["a", "right"], {"right", "other"}) == pytest.approx(0.39, abs=0.01)
    assert ndcg([*"abcdefghij", "right"], {"right"}) == 0

"""`/metrics` after crawls, and the rules and panels that read it."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.types import ASGIApp

from smartcrawl.rules.alarms import Limits
from tests.crawls.commands import Remote
from tests.lab.lab import Lab, page
from tests.server.api_client import application, ask
from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import debian_program
from tests.servers.go import go_program
from tests.site_server import Page

ROOT: Final = Path(__file__).parents[2]
ALERTS: Final = ROOT / "deploy/prometheus/alerts.yaml"
DASHBOARD: Final = ROOT / "deploy/grafana/smartcrawl.json"
#: Operators of PromQL that may stand where a metric could.
_WORDS: Final = frozenset({"and", "or", "unless", "bool"})
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def server(lab: Lab) -> ASGIApp:
    """The API over the registry of a lab."""
    crawl = lab.crawl
    registry = crawl.registry
    place = registry.url if isinstance(registry, Remote) else registry
    known = {"registry": place, "sources_file": crawl.sources_file, "limits": Limits(86_400, 0.1)}
    return application(crawl.folder, run=known, clock=lambda: float(crawl.now))


def samples(text: str) -> Samples:
    """Every sample by its name and labels."""
    return {
        (one.name, frozenset(one.labels.items())): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def measured(found: Samples, name: str, **labels: str) -> float:
    return found[f"smartcrawl_source_{name}", frozenset(labels.items())]


@pytest.fixture
def docs(lab: Lab) -> Lab:
    """A declared source after two runs: of three pages one failed, and one is unchanged."""
    seed = lab.site.url("/")
    lab.crawl.declare(f'[sources.docs]\nseeds = ["{seed}"]\nmax_failed = 0.9\n')
    lab.source = "docs"
    lab.pages |= {"/": page("Home", "/a", "/b"), "/b": page("B", text="b")}
    lab.pages["/a"] = Page(b"<title>A</title>a long text", etag='"1"')
    lab.run()
    lab.pages["/b"] = Page(b"", status=403)
    lab.run()
    return lab


def test_the_crawl_is_measured_by_source(docs: Lab):
    docs.after(hours=3)
    found = samples(ask(server(docs), "GET", "/metrics").text)

    assert found["smartcrawl_registry_up", frozenset()] == 1
    assert measured(found, "check_level", source="docs") == 1  # a page is lost
    age = measured(found, "age_seconds", source="docs")
    seen = measured(found, "last_complete_timestamp_seconds", source="docs")
    assert 3 * 3_600 <= age < 3 * 3_600 + 60
    assert seen == pytest.approx(docs.crawl.now - age, abs=2)
    assert measured(found, "max_age_seconds", source="docs") == 86_400  # by the setting
    assert measured(found, "max_failed_ratio", source="docs") == 0.9  # by its table
    assert measured(found, "failed_ratio", source="docs") == pytest.approx(1 / 3, abs=1e-4)
    states = ("pending", "crawled", "indexed", "error", "out_of_scope", "gone")
    assert [measured(found, "pages", source="docs", state=one) for one in states] == [
        0,
        0,
        2,
        1,
        0,
        0,
    ]
    assert measured(found, "marked_pages", source="docs", mark="stored") == 3
    assert measured(found, "marked_pages", source="docs", mark="lost") == 1
    assert measured(found, "failed_pages", source="docs", reason="http_403") == 1
    assert measured(found, "runs_total", source="docs", outcome="complete") == 2
    assert measured(found, "runs_total", source="docs", outcome="interrupted") == 0
    requests, saved = docs.rows("SELECT sum(requests), sum(bytes_saved) FROM run")[0]
    assert measured(found, "requests_total", source="docs") == requests
    assert measured(found, "saved_bytes_total", source="docs") == saved
    (same,) = docs.rows("SELECT sum(not_modified) FROM run")[0]
    assert measured(found, "not_modified_total", source="docs") == same > 0
    assert measured(found, "downloaded_bytes_total", source="docs") > 0
    assert measured(found, "removals_waiting", source="docs") == 0
    assert measured(found, "vectors_owed", source="docs") == 0
    assert measured(found, "run_seconds_total", source="docs") >= 0


def test_the_measures_are_read_once_a_minute(docs: Lab):
    """A scrape that comes again finds what was read; to read it, all states are counted."""
    app = server(docs)
    first = samples(ask(app, "GET", "/metrics").text)
    docs.run()
    assert measured(samples(ask(app, "GET", "/metrics").text), "runs_total", source="docs",
                outcome="complete") == measured(first, "runs_total", source="docs",
                                            outcome="complete") == 2  # fmt: skip
    docs.after(seconds=61)
    later = samples(ask(app, "GET", "/metrics").text)
    assert measured(later, "runs_total", source="docs", outcome="complete") == 3


def test_a_registry_that_is_away_is_a_measure(docs: Lab, tmp_path: Path):
    (tmp_path / "none").mkdir()
    (tmp_path / "none/registry.db").write_bytes(b"no registry at all, but some text" * 100)
    text = ask(application(tmp_path / "none"), "GET", "/metrics").text
    found = samples(text)
    assert found["smartcrawl_registry_up", frozenset()] == 0
    assert "smartcrawl_build" in text
    assert not any("source" in dict(labels) for _, labels in found)


# Rules and panels


def expressions() -> Iterator[tuple[str, str]]:
    """Yield each expression of the rules and panels, with its place."""
    for group in yaml.safe_load(ALERTS.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["alert"], rule["expr"]
    board = json.loads(DASHBOARD.read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["definition"]


def read(expression: str) -> Iterator[tuple[str, set[str], Mapping[str, str]]]:
    """Yield each metric of an expression with the labels that it is asked for.

    The grammar of PromQL is larger; these rules need names, matchers, `by` and numbers alone.
    """
    grouped = {
        label.strip()
        for labels in re.findall(r"\bby \(([^)]*)\)", expression)
        for label in labels.split(",")
    } - {"instance", "job"}
    rest = re.sub(r"\bby \([^)]*\)|\[\w+\]", "", expression)
    values = re.match(r"label_values\((\w+), (\w+)\)$", rest)
    if values:
        yield values[1], {values[2]}, {}
        return
    for name, matchers, called in re.findall(r"\b([a-z_]\w*)(\{[^}]*\})?(\s*\()?", rest):
        if name in _WORDS or called:
            continue
        pairs = re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', matchers)
        exact = {label: value for label, sign, value in pairs if sign == "="}
        yield name, grouped | {label for label, _, _ in pairs}, exact


def test_every_metric_and_label_of_a_rule_or_panel_exists(docs: Lab):
    app = server(docs)
    ask(app, "GET", "/health")
    found = samples(ask(app, "GET", "/metrics").text)
    labels: dict[str, set[str]] = {}
    for name, given in found:
        labels.setdefault(name, set()).update(label for label, _ in given)
    seen = set()
    for place, expression in expressions():
        for name, wanted, exact in read(expression):
            if name == "up":  # of Prometheus itself
                continue
            seen.add(name)
            assert name in labels, (place, name)
            assert wanted <= labels[name], (place, name, wanted)
            for label, value in exact.items():
                assert any(n == name and (label, value) in g for n, g in found), (place, value)
    assert len(seen) >= 15, "the reader of expressions misses some"
    lines = [line for line in found if line[0].startswith("smartcrawl_source_")]
    assert {name for name, _ in lines} <= seen, "a measure that nothing shows"


def test_the_reader_of_expressions_notices_a_wrong_name():
    assert list(read('sum by (state) (rate(a_total{source=~"x",b!="c"}[5m])) > d_ratio')) == [
        ("a_total", {"state", "source", "b"}, {}),
        ("d_ratio", {"state"}, {}),
    ]
    assert list(read('increase(a_total{outcome="due"}[1d]) > 2')) == [
        ("a_total", {"outcome"}, {"outcome": "due"})
    ]


def test_each_alarm_has_its_remedy_and_a_row_of_the_manual():
    manual = (ROOT / "docs/alarms.md").read_text()
    rules = [r for g in yaml.safe_load(ALERTS.read_text())["groups"] for r in g["rules"]]
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert f"| `{rule['alert']}` |" in manual
    assert set(re.findall(r"`(Smartcrawl\w+)`", manual)) == {rule["alert"] for rule in rules}


def test_the_dashboard_has_what_grafana_needs():
    """Ids, places and data sources; the test below asks Grafana's own types."""
    board = json.loads(DASHBOARD.read_text())
    panels: list[dict[str, Any]] = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert {"title", "uid", "schemaVersion", "templating", "time"} <= board.keys()
    names = {variable["name"] for variable in board["templating"]["list"]}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= names


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("", "", ""),
        ('"gridPos"', '"gridPoz"', "unexpected field 'gridPoz'"),
        ('"schemaVersion": 39', '"schemaVersion": "39"', "schemaVersion"),
        ('"orientation": "auto"', '"orientation": 7', "options.orientation"),
    ],
)
def test_grafana_reads_the_dashboard_by_its_own_types(before: str, after: str, says: str):
    """Its Foundation SDK knows each panel with its options, strictly."""
    program = go_program(ROOT / "tests/grafana")
    text = DASHBOARD.read_text()
    assert before in text
    changed = text.replace(before, after) if before else text
    done = subprocess.run([program], input=changed, text=True, capture_output=True, check=False)
    assert (done.returncode, says in done.stderr) == (int(bool(says)), True), done.stderr
    assert says or not done.stderr


@pytest.mark.long
def test_promtool_takes_each_expression_of_the_dashboard(tmp_path: Path):
    found = debian_program("prometheus", "usr/bin/promtool", "^prometheus")
    if isinstance(found, UnavailableError):
        absent(f"promtool is not available: {found}")
    expressions = [
        target["expr"].replace("$__rate_interval", "5m").replace("$__range", "1d")
        for panel in json.loads(DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]
    rules = [{"record": f"panel:{n}", "expr": expr} for n, expr in enumerate(expressions)]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    command = [str(found[0]), "check", "rules", file]
    done = subprocess.run(command, text=True, capture_output=True, check=False)
    assert (done.returncode, f"{len(rules)} rules found" in done.stdout) == (0, True), done.stdout


@pytest.mark.long
@pytest.mark.sqlite
def test_promtool_takes_rules_and_measures(docs: Lab):
    found = debian_program("prometheus", "usr/bin/promtool", "^prometheus")
    if isinstance(found, UnavailableError):
        absent(f"promtool is not available: {found}")
    promtool = str(found[0])
    subprocess.run([promtool, "check", "rules", ALERTS], check=True, capture_output=True)
    text = ask(server(docs), "GET", "/metrics").text
    checked = subprocess.run(
        [promtool, "check", "metrics"], input=text, text=True, capture_output=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")

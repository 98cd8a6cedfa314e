"""The project in a real scrapyd: deployed by scrapyd-client, and run as if by hand."""

import urllib.error
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import scrapyd_server
from tests.crawls.commands import Crawl, Scrapy
from tests.scrapyd_server import ROOT, Scrapyd, checkout, scrapyd
from tests.servers import UnavailableError
from tests.site_server import Page, Site, html

covers = pytest.mark.covers


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, ask: Scrapy) -> Iterator[SimpleNamespace]:
    """A scrapyd, the copy of the checkout that was deployed to it, and what its jobs write."""
    crawl = Crawl(tmp_path_factory.mktemp("crawl"), ask)
    copy = checkout(tmp_path_factory.mktemp("checkout"))
    own = crawl.environment | {
        "DATA_DIR": str(crawl.data_dir),
        "SOURCES_FILE": str(crawl.sources_file),
    }
    with scrapyd(tmp_path_factory.mktemp("scrapyd"), own) as server:
        with (copy / "scrapy.cfg").open("a") as file:
            file.write(f"\n[deploy:test]\nurl = {server.url}\n")
        deployed = server.client("test", "--version", "1", cwd=copy)
        yield SimpleNamespace(server=server, copy=copy, deployed=deployed, crawl=crawl)


def test_the_egg_holds_every_file_of_the_package(deployment: SimpleNamespace):
    assert deployment.deployed.returncode == 0, deployment.deployed.stderr
    with zipfile.ZipFile(deployment.server.folder / "eggs/smartcrawl/1.egg") as egg:
        held = {  # besides what Python compiles of it, where it may write that
            name
            for name in egg.namelist()
            if name.startswith("smartcrawl/") and "/__pycache__/" not in name
        }
        entry_points = egg.read("EGG-INFO/entry_points.txt").decode().split()

    assert held == {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "smartcrawl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert entry_points == [
        "[console_scripts]", "smartcrawl", "=", "smartcrawl.__main__:run",
        "[scrapy]", "settings", "=", "smartcrawl.settings",
    ]  # fmt: skip
    assert '"spiders": 4' in deployment.deployed.stdout
    listed = deployment.server.ask("listspiders.json", project="smartcrawl", _version="1")
    assert listed["spiders"] == ["files", "github", "sharepoint", "site"]


@covers("RP-08")
def test_the_second_run_of_a_schedule_asks_conditionally(deployment: SimpleNamespace, site: Site):
    site.pages["/"] = html("Home", "/a", "/notes.md", text="Where everything begins.")
    site.pages["/a"] = Page(html("A page", "/"), last_modified=datetime(2026, 1, 1, tzinfo=UTC))
    # It is read in a process of its own, which has to find its code in the egg.
    site.pages["/notes.md"] = Page("# Notes\n\nAbout lamps.\n", content_type="text/markdown")
    pages = ("/", "/a", "/notes.md")
    source = site.url("/").split("/")[2]

    first_log = deployment.server.job(url=site.url("/"))
    first = {entry.path: entry.status for entry in site.log}
    site.clear()
    second_log = deployment.server.job(url=site.url("/"), _version="1")
    second = {entry.path: entry.status for entry in site.log}

    assert {path: first[path] for path in pages} == dict.fromkeys(pages, 200), first_log
    assert {path: second[path] for path in pages} == dict.fromkeys(pages, 304)
    runs = deployment.crawl.runs(source=source)
    assert [(run["new"], run["unchanged"], run["complete"]) for run in runs] == [
        (0, 3, True),
        (3, 0, True),
    ]
    assert deployment.crawl.hits("lamps") == ["/notes.md"]
    assert f"INFO: Run {runs[1]['run']} of {source}: complete" in first_log
    assert "Nothing changed: all 3 pages answered 304" in second_log
    assert not list(deployment.server.folder.rglob("registry.db"))


@covers("RP-08")
def test_arguments_are_texts(deployment: SimpleNamespace, site: Site):
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages |= {"/a": html("A"), "/b": html("B")}
    deployment.crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\n')
    deployment.server.job(source="docs")
    site.clear()

    log = deployment.server.job(source="docs", force="1", max_pages="2", resume="0")

    assert [entry.status for entry in site.log if entry.path != "/robots.txt"] == [200, 200]
    assert "max_pages" in log
    assert "incomplete" in log


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nonsense": "1"}, "unknown argument 'nonsense': the spider site takes url,"),
        ({"force": "perhaps"}, "force is 'perhaps': it takes 1 or 0"),
        ({"setting": "DATA_DIR=.smartcrawl"}, "name a folder that stays, such as DATA_DIR=/var/l"),
    ],
)
def test_the_log_of_a_job_says_why_it_was_not_carried_out(
    deployment: SimpleNamespace, site: Site, arguments: dict[str, str], message: str
):
    before = deployment.server.said()

    log = deployment.server.job(url=site.url("/"), **arguments)

    said = deployment.server.said().removeprefix(before)
    assert message in log, said
    assert "Process died: exitstatus=1" in said
    assert not site.log
    assert not (deployment.server.folder / ".smartcrawl").exists()


def test_who_does_not_know_the_password_deploys_nothing(deployment: SimpleNamespace):
    """ATT-54."""
    stranger = Scrapyd(
        deployment.server.url,
        deployment.server.folder,
        {"SCRAPYD_USERNAME": "deployer", "SCRAPYD_PASSWORD": "guessed"},
        deployment.server.python,
    )

    refused = stranger.client("test", "--version", "2", cwd=deployment.copy)

    assert refused.returncode == 1
    assert "Deploy failed (401)" in refused.stderr
    with pytest.raises(urllib.error.HTTPError, match="401"):
        stranger.ask("daemonstatus.json", known=False)
    assert deployment.server.ask("listversions.json", project="smartcrawl")["versions"] == ["1"]


def test_what_cannot_be_installed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    missing = tmp_path / "requirements.txt"
    missing.write_text("./there-is-no-such-package")
    monkeypatch.setenv("SMARTCRAWL_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(scrapyd_server, "REQUIREMENTS", missing)

    for _ in range(2):  # what was left half done is not taken for complete
        with pytest.raises(UnavailableError, match="there-is-no-such-package"):
            scrapyd_server._environment()


@pytest.mark.parametrize(
    ("required", "outcome"), [("0", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_where_it_cannot_be_had_the_reason_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, required: str, outcome: type[BaseException]
):
    monkeypatch.setenv("SMARTCRAWL_REQUIRE_SERVERS", required)
    monkeypatch.setattr(
        scrapyd_server, "scrapyd_lookup", lambda: UnavailableError("there is no network")
    )

    with (
        pytest.raises(outcome, match="scrapyd is not available: there is no network"),
        scrapyd(tmp_path, {}),
    ):
        raise AssertionError

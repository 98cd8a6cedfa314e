"""The project in a real scrapyd: deployed by scrapyd-client, and run as if by hand."""

import re
import shutil
import textwrap
import urllib.error
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from smartcrawl import __version__
from tests import scrapyd_server
from tests.crawls.commands import Crawl, Scrapy, wait_until
from tests.scrapyd_server import ROOT, Scrapyd, checkout, scrapyd
from tests.servers import UnavailableError
from tests.site_server import Page, Site, html

covers = pytest.mark.covers
_INIT, _SPIDER = "smartcrawl/__init__.py", "smartcrawl/spiders/site.py"


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


@pytest.mark.long
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
    assert "Nothing changed: all 3 pages returned 304" in second_log
    assert not list(deployment.server.folder.rglob("registry.db"))


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nonsense": "1"}, "unknown argument 'nonsense': the spider site takes url,"),
        ({"force": "perhaps"}, "force is 'perhaps': expected 1 or 0"),
        ({"setting": "RECRAWL_POLCY=due"}, "no setting RECRAWL_POLCY, did you mean RECRAWL_POLICY"),
        ({"setting": "LOG_FORMAT=wide"}, "LOG_FORMAT is 'wide'"),
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
    assert runs("1", deployment.server) in log or "LOG_FORMAT" in message
    assert "Process died: exitstatus=" in said
    assert not site.log
    assert not (deployment.server.folder / ".smartcrawl").exists()


class Releases:
    """Versions of the copy of the checkout that are deployed beside version 1."""

    def __init__(self, deployment: SimpleNamespace) -> None:
        self.server: Scrapyd = deployment.server
        self._copy: Path = deployment.copy
        self._before = {name: (self._copy / name).read_text() for name in (_INIT, _SPIDER)}

    def deploy(self, version: str, *, raises: bool = False) -> None:
        """Deploy a version that calls itself so; ``raises``: its spider does not start."""
        init = self._before[_INIT].replace(f'"{__version__}"', f'"0.1.{version}"')
        (self._copy / _INIT).write_text(init)
        spider = self._before[_SPIDER]
        if raises:
            spider += f"\n\ndef _fails(*_, **__):\n    raise RuntimeError('of egg {version}')\n"
            spider += "\n\nSiteSpider.from_crawler = classmethod(_fails)\n"
        (self._copy / _SPIDER).write_text(spider)
        done = self.server.client("test", "--version", version, cwd=self._copy)
        assert done.returncode == 0, done.stderr

    def remove(self, version: str) -> None:
        """Take a version away."""
        self.server.ask("delversion.json", project="smartcrawl", version=version)

    def restore(self) -> None:
        """Leave version 1 alone."""
        for name, text in self._before.items():
            (self._copy / name).write_text(text)
        listed = self.server.ask("listversions.json", project="smartcrawl")["versions"]
        for version in set(listed) - {"1"}:
            self.remove(version)


@pytest.fixture
def releases(deployment: SimpleNamespace) -> Iterator[Releases]:
    """Deploys further versions, and takes them away in the end."""
    found = Releases(deployment)
    yield found
    found.restore()


def runs(version: str, server: Scrapyd) -> str:
    """Return how the log of a job names what it runs."""
    own = __version__ if version == "1" else f"0.1.{version}"
    egg = server.folder / f"eggs/smartcrawl/{version}.egg"
    return f"scrapyd runs version {version}: smartcrawl {own} of {egg}"


@pytest.mark.long
def test_each_job_runs_the_version_that_was_deployed(releases: Releases, site: Site):
    """Side by side, upgraded, rolled back and deleted, in the environment of script/setup."""
    site.pages["/"] = html("Home")
    server, url = releases.server, site.url("/")

    releases.deploy("2")
    assert runs("2", server) in server.job(url=url)
    assert runs("1", server) in server.job(url=url, _version="1")  # beside the new one
    releases.deploy("3", raises=True)
    log = server.job(url=url)
    assert runs("3", server) in log
    assert "RuntimeError: of egg 3" in log
    releases.remove("3")
    assert runs("2", server) in server.job(url=url)
    releases.remove("2")
    log = server.job(url=url)
    assert runs("1", server) in log
    assert "complete" in log


@pytest.mark.long
def test_an_upgrade_leaves_a_job_that_runs_its_version(releases: Releases, site: Site):
    site.pages["/"] = html("Home", "/late")
    upgraded = Event()
    site.pages["/late"] = Page(html("Late", "/notes.md"), until=upgraded.is_set)
    site.pages["/notes.md"] = Page("# Notes\n\nAbout oil.\n", content_type="text/markdown")
    server = releases.server

    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(server.job, url=site.url("/"))
        wait_until(lambda: site.count("/late"), "the job is under way")
        try:
            releases.deploy("2", raises=True)
        finally:
            upgraded.set()
        log = job.result()

    assert runs("1", server) in log
    assert "WARNING" not in log
    assert "Traceback" not in log
    assert "complete" in log
    assert site.count("/notes.md") == 1


@pytest.mark.long
def test_a_job_of_an_environment_with_the_checkout_says_that_no_egg_runs(
    deployment: SimpleNamespace, site: Site, tmp_path: Path
):
    """It is started in a checkout, whose folder Python finds before the egg."""
    site.pages["/"] = html("Home")
    own = deployment.crawl.environment | {"DATA_DIR": str(tmp_path / "data")}
    shutil.copytree(ROOT / "smartcrawl", tmp_path / "smartcrawl")
    shutil.copytree(deployment.server.folder / "eggs", tmp_path / "eggs")
    with scrapyd(tmp_path, own) as server:
        log = server.job(url=site.url("/"))

    assert f"scrapyd runs smartcrawl {__version__} of {tmp_path}, and not version 1 of" in log


_SHOP = """
from smartcrawl.spiders.site import SiteSpider


class Docs(SiteSpider):
    name = "docs"
    custom_settings = {"ITEM_PIPELINES": {"shop.pipelines.Lines": 300}}

    def parse(self, response):
        yield from super().parse(response)
        if response.url.endswith("/"):
            yield {"title": response.css("title::text").get()}
"""
_LINES = """
class Lines:
    def process_item(self, item):
        with open(%r, "a") as file:
            file.write(item["title"] + " of shop VERSION\\n")
        return item
"""


class Shop:
    """A foreign project with the add-on, as the manual has it for scrapyd."""

    def __init__(self, folder: Path, server: Scrapyd) -> None:
        self._folder, self.server = folder / "project", server
        self.titles = folder / "titles"
        manual = (ROOT / "docs/operations/project.md").read_text("utf-8")
        (three,) = re.findall(r"    ADDONS = .*\n(?:    \w+ = .*\n){2}", manual)
        (setup,) = re.findall(r"    from setuptools import .*?\n    \)\n", manual, re.DOTALL)
        settings = textwrap.dedent(three).replace("/var/lib/smartcrawl", str(folder / "state"))
        files = {
            "scrapy.cfg": "[settings]\ndefault = shop.settings\n"
            f"[deploy]\nurl = {server.url}\nproject = shop\n"
            "username = $SCRAPYD_USERNAME\npassword = $SCRAPYD_PASSWORD\n",
            "setup.py": textwrap.dedent(setup),
            "shop/__init__.py": "",
            "shop/spiders.py": _SHOP,
            "shop/settings.py": f"SPIDER_MODULES = ['shop.spiders']\n{settings}",
        }
        for name, text in files.items():
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_text(text)

    def deploy(self, version: str, smartcrawl: Path | None) -> str:
        """Deploy a version, with a copy of this smartcrawl in its egg; return what was said."""
        lines = _LINES.replace("VERSION", version) % str(self.titles)
        (self._folder / "shop/pipelines.py").write_text(lines)
        if smartcrawl is not None:
            shutil.copytree(smartcrawl, self._folder / "smartcrawl", dirs_exist_ok=True)
        done = self.server.client("--version", version, cwd=self._folder)
        return done.stdout + done.stderr

    def job(self, **arguments: str) -> str:
        """Run its spider, and return the log."""
        return self.server.job(project="shop", spider="docs", **arguments)


@pytest.mark.long
def test_a_foreign_project_brings_smartcrawl_in_its_egg(
    deployment: SimpleNamespace, site: Site, tmp_path: Path
):
    """Its jobs run its own code, and those of smartcrawl beside it theirs."""
    site.pages["/"] = html("Home", "/notes.md")
    site.pages["/notes.md"] = Page("# Notes\n\nAbout oil.\n", content_type="text/markdown")
    server, url = deployment.server, site.url("/")
    shop, own = Shop(tmp_path, server), tmp_path / "own"
    shutil.copytree(deployment.copy / "smartcrawl", own)
    newer = (own / "__init__.py").read_text().replace(f'"{__version__}"', '"0.1.7"')

    assert "No module named 'smartcrawl'" in shop.deploy("0", None)
    assert '"status": "ok"' in shop.deploy("1", own)
    (own / "__init__.py").write_text(newer)
    assert '"status": "ok"' in shop.deploy("2", own)
    listed = server.ask("listspiders.json", project="shop")["spiders"]
    first = shop.job(url=url, _version="1")
    second = shop.job(url=url)

    assert listed == ["docs", "files", "github", "sharepoint", "site"]
    egg = server.folder / "eggs/shop"
    assert f"scrapyd runs version 1: smartcrawl {__version__} of {egg}/1.egg" in first
    assert f"scrapyd runs version 2: smartcrawl 0.1.7 of {egg}/2.egg" in second
    assert "2 requests, 2 of them conditional, 2 answered 304" in second
    assert shop.titles.read_text().splitlines() == ["Home of shop 1", "Home of shop 2"]
    for log in (first, second):
        assert "WARNING" not in log
        assert "Traceback" not in log
    assert site.count("/notes.md") == 2
    assert (tmp_path / "state/registry.db").exists()
    assert runs("1", server) in server.job(url=url)


@pytest.mark.long
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


@pytest.mark.long
def test_what_cannot_be_installed_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    missing = tmp_path / "requirements.txt"
    missing.write_text("./there-is-no-such-package")
    monkeypatch.setenv("SMARTCRAWL_TEST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(scrapyd_server, "REQUIREMENTS", missing)
    monkeypatch.setattr(scrapyd_server, "SETUP", scrapyd_server.SETUP[:2])  # without a lock

    for _ in range(2):  # what was left half done is not taken for complete
        with pytest.raises(UnavailableError, match="there-is-no-such-package"):
            scrapyd_server._environment()


@pytest.mark.long
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

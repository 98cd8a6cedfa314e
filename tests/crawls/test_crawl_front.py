"""``smartcrawl`` from any folder: a crawl, a search, and the command lines that they print."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.github_peer import GithubPeer
from tests.site_server import Site, html

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


@pytest.fixture
def smartcrawl(tmp_path: Path):
    """Call it in an empty folder, as a user without state."""
    here = tmp_path / "here"
    here.mkdir()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DATA_DIR", "SMARTCRAWL_DATA_DIR", "REGISTRY_URL", "ELASTICSEARCH_URL")
    }
    environment |= {
        "PYTHONPATH": str(ROOT),
        "XDG_DATA_HOME": str(tmp_path / "home"),
        "AUTOTHROTTLE_ENABLED": "0",
        "SOFT_404_DETECTION": "0",
        "TRUST_SAMPLE_RATIO": "0",
    }

    def call(*words: str, expect: int = 0) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "smartcrawl", *words], cwd=here, env=environment,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert result.returncode == expect, result.stdout + result.stderr
        assert "Traceback" not in result.stderr
        return result.stdout if expect == 0 else result.stderr

    return call


def printed(out: str) -> list[str]:
    """Return the words of the command line that a crawl prints for a search."""
    (line,) = (line for line in out.splitlines() if line.startswith("Search it:"))
    python, _, module, *words = shlex.split(line.removeprefix("Search it:"))
    assert (python, module) == ("python", "smartcrawl")
    return words


def test_the_state_is_in_the_folder_of_the_user_and_the_closing_message_says_so(
    smartcrawl, tmp_path: Path
):
    with Site() as site:
        site.pages["/"] = html("Home", "/a")
        site.pages["/a"] = html("Undoing changes")
        out = smartcrawl("crawl", site.url("/"))
        assert f"Stored in:  {tmp_path / 'home' / 'smartcrawl'}" in out

        assert site.url("/a") in smartcrawl(*printed(out)[:-1], "undoing")
        assert "2 requests, 2 of them conditional, 2 answered 304" in smartcrawl(
            "crawl", site.url("/")
        )
        assert site.url("/a") in smartcrawl("why", site.url("/a"))
        assert not list((tmp_path / "here").iterdir())


def test_a_named_folder_is_in_the_command_line_that_is_printed(smartcrawl, tmp_path: Path):
    with Site() as site:
        site.pages["/"] = html("Undoing changes")
        out = smartcrawl("crawl", "--data-dir", "my state", site.url("/"))
        words = printed(out)
        assert words[:3] == ["search", "--data-dir", str(tmp_path / "here" / "my state")]
        assert site.url("/") in smartcrawl(*words[:-1], "undoing")

        out = smartcrawl("forget", "--data-dir", "my state", site.url("/"), "--format", "json")
        assert f"smartcrawl undo --data-dir '{tmp_path / 'here' / 'my state'}'" in out


def test_a_local_folder_of_state_needs_no_name(smartcrawl, tmp_path: Path):
    (tmp_path / "here" / ".smartcrawl").mkdir()
    with Site() as site:
        site.pages["/"] = html("Undoing changes")
        (tmp_path / "here" / "sources.toml").write_text(
            f'[sources.docs]\nseeds = ["{site.url("/")}"]\n', encoding="utf-8"
        )
        out = smartcrawl("crawl", "docs")

        assert "Stored in:" not in out
        assert printed(out)[:-1] == ["search", "--source", "docs"]
        assert site.url("/") in smartcrawl("search", "undoing")
        assert (tmp_path / "here" / ".smartcrawl" / "registry.db").exists()
        assert "of docs: checked the pages that were due" in smartcrawl("due", "--source", "docs")


@pytest.mark.parametrize("option", [[], ["--source"]])
def test_a_crawl_takes_the_source_of_a_library_by_its_name(
    smartcrawl, tmp_path: Path, option: list[str]
):
    domain = tmp_path / "here" / ".smartcrawl" / "library" / "domains" / "D1"
    domain.mkdir(parents=True)
    site = "https://contoso.sharepoint.com/sites/demo"
    source = f'{{"source_id": "one", "site_url": "{site}", "sharepoint_url_part": "/A"}}'
    (domain / "domain.json").write_text(f'{{"name": "D", "file_sources": [{source}]}}')

    assert "SHAREPOINT_TENANT is empty" in smartcrawl("crawl", *option, "D1.one", expect=1)
    said = smartcrawl("crawl", *option, "D1.two", expect=1)
    assert "has no source 'two': it has one" in " ".join(said.split())


def test_a_repository_is_crawled_and_its_next_run_is_planned(smartcrawl, tmp_path: Path):
    with GithubPeer(tmp_path) as peer:
        docs = peer.repository("octo/docs")
        docs.write("a.md", "# Whale")
        docs.commit()
        words = [word for pair in peer.settings.items() for word in ("-s", "=".join(pair))]
        smartcrawl("crawl", *words, "https://github.com/octo/docs/tree/HEAD")

        assert "skips     1 (unchanged)" in smartcrawl("plan", *words)

"""A real server: nested directories linked without their slash, compression, its own validators."""

from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.servers import nginx
from tests.site_server import html


@pytest.mark.covers("R0-97", "R1-06", "R1-54", "RP-04")
def test_a_site_served_by_nginx_is_crawled_whole_and_refreshed_with_304s(
    tmp_path: Path, crawl: Crawl
):
    root = tmp_path / "root"
    written = set()
    for path in ("", "guide", "guide/install", "guide/install/linux", "api", "api/v1"):
        folder = root / path
        folder.mkdir(parents=True, exist_ok=True)
        below = [f"/{path}/{name}".replace("//", "/") for name in ("one.html", "two.html")]
        children = {
            "": ["guide", "api/"], "guide": ["/guide/install"], "guide/install": ["linux"],
            "api": ["v1"],
        }.get(path, [])  # fmt: skip
        (folder / "index.html").write_text(html(f"Index of {path}", *below, *children))
        for name in ("one.html", "two.html"):
            (folder / name).write_text(html(f"{name} of {path}", text=f"text {path}-{name} " * 60))
        prefix = f"/{path}/".replace("//", "/")
        written |= {prefix, f"{prefix}one.html", f"{prefix}two.html"}
    (root / "guide/notes.txt").write_text("not linked")

    with nginx(root) as server:
        crawl(server.url)
        pages, stored = crawl.pages(), crawl.stored()
        assert set(pages) == written
        assert {page["lastOutcome"] for page in pages.values()} == {"new"}
        assert all(page["httpEtag"] and page["httpLastModified"] for page in pages.values())
        assert len(crawl.hits("linux")) >= 2

        result = crawl(server.url)

        assert {page["lastStatusCode"] for page in crawl.records()} == {304}
        assert crawl.stored() == stored
        assert "Nothing changed" in result.out
        run = crawl.runs()[0]
        assert run["requests"] == run["notModified"] == len(written)
        page = root / "api/v1/one.html"
        page.write_text(html("Rewritten", "/guide/notes.txt", text="brand new words " * 60))

        crawl(server.url)

        outcomes = crawl.outcomes()
        assert outcomes.pop("/api/v1/one.html") == "modified"
        assert outcomes.pop("/guide/notes.txt") == "new"
        assert set(outcomes.values()) == {"unchanged"}
        assert crawl.hits("brand new") == ["/api/v1/one.html"]
        page.unlink()

        crawl(server.url)

        lost = crawl.pages()["/api/v1/one.html"]
        assert (lost["lastOutcome"], lost["httpStatusCode"]) == ("lost", 404)
        assert crawl.hits("brand new") == ["/api/v1/one.html"]
        assert crawl.outcomes()["/guide/notes.txt"] == "unchanged", "what is held vouches"

        crawl(server.url, lost_threshold=2)

        gone = crawl.pages()["/api/v1/one.html"]
        assert (gone["lastOutcome"], gone["status"], gone["httpEtag"]) == ("gone", "Gone", None)
        assert crawl.hits("brand new") == []
        assert crawl.counts_add_up()

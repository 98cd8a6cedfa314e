"""Two registries that have a source of one name, and share a Redis."""

from contextlib import ExitStack

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.embedded, pytest.mark.alone]


def test_runs_of_two_registries_with_one_redis_take_nothing_from_each_other(
    site, tmp_path, ask, redis_url, spare_registries
):
    paths = [f"/p{n}" for n in range(12)]
    with Site() as other_site, ExitStack() as stack:
        crawls, running = [], []
        for name, server in (("one", site), ("two", other_site)):
            server.pages["/"] = html("Home", *paths)
            for path in paths:
                server.pages[path] = Page(html(path, text=f"{name} {path}"), delay=0.1)
            (tmp_path / name).mkdir()
            url = spare_registries.take()
            stack.callback(spare_registries.put_back, url)
            crawl = Crawl(tmp_path / name, ask, url, redis=redis_url)
            crawl.declare(f'[sources.docs]\nseeds = ["{server.url("/")}"]\n')
            crawl.environment |= {"CONCURRENT_REQUESTS": "1"}
            crawls.append(crawl)
        for crawl in crawls:
            running.append(stack.enter_context(crawl.start(source="docs")))
        for one in running:
            assert one.end().status == 0
        for crawl, server in zip(crawls, (site, other_site), strict=True):
            assert len(crawl.records()) == 13
            assert sorted(
                request.path for request in server.log if "robots" not in request.path
            ) == (sorted(["/", *paths]))

"""The command that ends a run sends its notices."""

import json
import time

import pytest

from tests.crawls.commands import Crawl
from tests.lab.receivers import hook
from tests.site_server import Site, html

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.mark.long
@pytest.mark.sqlite
def test_a_crawl_sends_what_it_changed_and_waits_for_no_target(crawl: Crawl, site: Site):
    site.pages["/"] = html("Home", text="words of a page")
    crawl.environment["HOOK_SECRET"] = SECRET
    with hook() as receiver:
        crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\n')
        (crawl.folder / "smartcrawl.toml").write_text(
            '[settings]\nALLOW_NETWORKS = ["127.0.0.0/8"]\n'
            f'[notify.ops]\nwebhook = "{receiver.url}"\nsecret = "HOOK_SECRET"\n'
        )
        crawl(source="docs")
        ((_, body),) = receiver.taken
        assert json.loads(body)["data"]["counts"] == {"new": 1}
        site.pages["/"] = html("Home", text="other words of a page")
        receiver.hangs = True
        begun = time.monotonic()
        crawl(source="docs")
        assert time.monotonic() - begun < 30
        assert len(receiver.taken) == 2

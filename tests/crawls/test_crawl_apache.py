"""Apache with a compressing filter, which does not know the tags that it sends."""

import http.client
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.crawls.commands import Crawl
from tests.servers.apache import apache
from tests.site_server import html

PAGES = 30


@pytest.mark.long
@pytest.mark.covers("RD-04", "R0-97")
@pytest.mark.parametrize("coding", ["DEFLATE", "BROTLI_COMPRESS"])
def test_a_filter_that_marks_its_tags_is_asked_for_the_plain_ones_too(crawl: Crawl, coding: str):
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    pages = {f"p{n}.html": html(f"Page {n}", text=f"the text of {n} " * 60) for n in range(PAGES)}
    pages["index.html"] = html("Home", *pages)
    with apache(pages, coding=coding) as (url, root):
        crawl(url)
        assert all(record["httpEtag"].endswith(('-gzip"', '-br"')) for record in crawl.records())
        crawl(url)
        learnt = crawl.runs()[0]
        assert learnt["requests"] == PAGES + 1

        crawl(url)

        run = crawl.runs()[0]
        assert run["notModified"] == run["requests"] == PAGES + 1
        assert set(crawl.outcomes().values()) == {"unchanged"}
        (root / "p7.html").write_text(html("Page 7", text="brand new words " * 60))
        crawl(url)
        assert crawl.outcomes()["/p7.html"] == "modified"
        assert crawl.runs()[0]["notModified"] == PAGES
        crawl(url)
        assert crawl.runs()[0]["notModified"] == PAGES + 1


TIME = 1_767_600_000  #: of all files, in Unix seconds


@contextmanager
def alternating(machines: list[str]) -> Iterator[tuple[str, list[tuple[str, bool, bool, int]]]]:
    """Answer each address by one machine after the other.

    Yields the address, and a list of requests: path, whether it had tags, a date, and the status.
    """
    log: list[tuple[str, bool, bool, int]] = []
    asked: Counter[str] = Counter()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            with lock:
                machine = urlsplit(machines[asked[self.path] % len(machines)]).netloc
                asked[self.path] += 1
            connection = http.client.HTTPConnection(machine, timeout=30)
            connection.request("GET", self.path, headers=dict(self.headers))
            answer = connection.getresponse()
            body = answer.read()
            connection.close()
            conditions = "If-None-Match" in self.headers, "If-Modified-Since" in self.headers
            log.append((self.path, *conditions, answer.status))
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            if answer.status != 304:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/", log
        finally:
            server.shutdown()
            thread.join()


def publish(roots: list[Path], name: str, body: str, time: int) -> None:
    for root in roots:
        (root / name).write_text(body)
        os.utime(root / name, (time, time))


@pytest.mark.long
@pytest.mark.covers("M-10", "R0-97")
def test_two_machines_behind_one_name_are_asked_with_dates(crawl: Crawl):
    """Their ETags have the inodes of their files; the dates of these are the same."""
    crawl.environment["TRUST_SAMPLE_RATIO"] = "0"
    pages = {f"p{n}.html": html(f"Page {n}", text=f"the text of {n} " * 60) for n in range(PAGES)}
    pages["index.html"] = html("Home", *pages)
    tags = "INode MTime Size"
    with (
        apache(pages, coding="DEFLATE", tags=tags) as (one, first),
        apache(pages, coding="DEFLATE", tags=tags) as (two, second),
        alternating([one, two]) as (url, log),
    ):
        roots = [first, second]
        for name, body in pages.items():
            publish(roots, name, body, TIME)
        for run in range(3):
            log.clear()
            crawl(url)
            asked = [request for request in log if request[0] != "/robots.txt"]
            assert len(asked) == PAGES + 1
            assert run != 1 or {request[1:] for request in asked} == {(True, True, 200)}
        alone = [request for request in asked if request[1:] == (False, True, 304)]
        assert len(alone) >= PAGES / 2, "two pages show it, the others profit"
        publish(roots, "p7.html", html("Page 7", text="brand new words " * 60), TIME + 60)
        log.clear()
        crawl(url)

        assert {request[1:3] for request in log if request[0] != "/robots.txt"} == {(False, True)}
        assert crawl.runs()[0]["notModified"] == PAGES
        assert crawl.outcomes()["/p7.html"] == "modified"
        crawl(url)
        assert crawl.runs()[0]["notModified"] == PAGES + 1
        assert "its ETags rotate" in crawl.run("hosts").out

"""Scrapy without smartcrawl doing the same work, as the measure of the benchmarks.

    python bench/peers.py first URL [--cache FOLDER] [--list LIST.tsv]
    python bench/peers.py refresh LIST.tsv
    python bench/peers.py middleware URL LIST.tsv

`first` follows every link of the seed's host and stores nothing; with `--cache` through Scrapy's
HttpCache by RFC 2616, which is made to ask for each page that it has stored. `refresh` sends the
conditional request of each line (URL, ETag, Last-Modified). `middleware` is the obvious design of
an incremental crawler. From the seed, a middleware adds the validators of the list; a 304 yields a
Request for each stored link, and the scheduler drops duplicates.

Each prints one line of JSON: the pages passed to the spider, CPU seconds of this process, wall
seconds between spider_opened and spider_closed, and the peak of resident memory in MiB. It also has
the count of each status received, and how many pages of the cache the server confirmed.

`--list` writes the lines: the page's links come after its validators.
"""

import argparse
import json
import resource
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import scrapy
from scrapy import signals
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.http import HtmlResponse, Request, Response
from scrapy.linkextractors.lxmlhtml import LxmlLinkExtractor

_STATUS = "downloader/response_status_count/"

SETTINGS = {
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
}
REVALIDATE = {
    "HTTPCACHE_ENABLED": True,
    "HTTPCACHE_POLICY": "scrapy.extensions.httpcache.RFC2616Policy",
    # As it is, it believes for a tenth of a page's age that nothing has changed, and asks nothing.
    "DEFAULT_REQUEST_HEADERS": {"Cache-Control": "max-age=0"},
}


class Measured(scrapy.Spider):
    """Counts its pages, and its time from opened to closed."""

    pages = 0

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.begin, signals.spider_opened)
        crawler.signals.connect(spider.end, signals.spider_closed)
        return spider

    def begin(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def end(self) -> None:
        self.cpu, self.wall = time.process_time() - self.cpu, time.perf_counter() - self.wall

    def figures(self) -> dict[str, Any]:
        stats = self.crawler.stats.get_stats()
        return {
            "pages": self.pages,
            "cpu": round(self.cpu, 4),
            "wall": round(self.wall, 4),
            "rss": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            "statuses": {
                key.removeprefix(_STATUS): count
                for key, count in sorted(stats.items())
                if key.startswith(_STATUS)
            },
            "revalidated": stats.get("httpcache/revalidate", 0),
        }


class First(Measured):
    name = "first"

    def __init__(self, url: str, validators: Path | None = None) -> None:
        super().__init__()
        self.url = url
        # By host and port, before requests are built: cheaper than OffsiteMiddleware alone.
        self.links = LxmlLinkExtractor(allow_domains=[urlsplit(url).netloc])
        self.validators = validators
        self.lines: list[tuple[str, ...]] = []

    async def start(self) -> AsyncIterator[Request]:
        # Scrapy's own start() hides the seed from the duplicate filter: it would be fetched twice.
        yield Request(self.url)

    def parse(self, response: Response) -> Iterator[Request]:
        self.pages += 1
        html = isinstance(response, HtmlResponse)
        links = [link.url for link in self.links.extract_links(response)] if html else []
        if self.validators is not None:
            sent = (response.headers.get(name, b"") for name in ("ETag", "Last-Modified"))
            values = (value.decode("latin-1") for value in sent)
            self.lines.append((page_of(response.url), *values, *links))
        for link in links:
            yield Request(link)

    def closed(self, reason: str) -> None:
        if self.validators is not None:
            lines = ("\t".join(line) + "\n" for line in self.lines)
            self.validators.write_text("".join(lines))


class Refresh(Measured):
    name = "refresh"
    handle_httpstatus_list = [304]  # noqa: RUF012 - Scrapy's way to say it

    def __init__(self, validators: Path) -> None:
        super().__init__()
        self.validators = validators

    async def start(self) -> AsyncIterator[Request]:
        with self.validators.open() as lines:
            for line in lines:
                url, etag, modified, *_ = line.rstrip("\n").split("\t")
                # As Scrapy's own start() does: a list has no duplicates.
                yield Request(url, headers=conditions(etag, modified), dont_filter=True)

    def parse(self, response: Response) -> None:
        self.pages += 1


class Known(NamedTuple):
    """Data that the obvious design stores of a page."""

    conditions: dict[str, str]
    links: list[str]


class Obvious(First):
    """Asks known pages with validators, and goes on with the links that it knows of them."""

    name = "middleware"
    handle_httpstatus_list = [304]  # noqa: RUF012 - Scrapy's way to say it

    def __init__(self, url: str, known: Path) -> None:
        super().__init__(url)
        self.known: dict[str, Known] = {}
        with known.open() as lines:
            for line in lines:
                page, etag, modified, *links = line.rstrip("\n").split("\t")
                self.known[page] = Known(conditions(etag, modified), links)

    def parse(self, response: Response) -> Iterator[Request]:
        if response.status != 304:
            yield from super().parse(response)
            return
        self.pages += 1
        for link in self.known[page_of(response.url)].links:
            yield Request(link)


class Validators:
    """The middleware of the obvious design."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def process_request(self, request: Request) -> None:
        assert isinstance(self.crawler.spider, Obvious)
        known = self.crawler.spider.known.get(page_of(request.url))
        if known is not None:
            request.headers.update(known.conditions)


def page_of(url: str) -> str:
    """Return a URL without its fragment, which Scrapy keeps."""
    return url.partition("#")[0]


def conditions(etag: str, modified: str) -> dict[str, str]:
    """Return the headers that ask whether a page is as it was."""
    asked = {"If-None-Match": etag, "If-Modified-Since": modified}
    return {name: value for name, value in asked.items() if value}


def main() -> None:
    parser = argparse.ArgumentParser(description="Scrapy without smartcrawl, measured.")
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("first", help="follow every link of one host")
    first.add_argument("url")
    first.add_argument("--list", type=Path, help="write URL, validators and links of each page")
    first.add_argument("--cache", type=Path, help="through HttpCache, revalidated, kept here")
    refresh = commands.add_parser("refresh", help="send the conditional requests of a list")
    refresh.add_argument("list", type=Path)
    middleware = commands.add_parser("middleware", help="refresh from the seed, by a middleware")
    middleware.add_argument("url")
    middleware.add_argument("list", type=Path)
    arguments = parser.parse_args()

    settings: dict[str, Any] = dict(SETTINGS)
    if arguments.command == "first":
        if arguments.cache:
            settings |= REVALIDATE | {"HTTPCACHE_DIR": str(arguments.cache.resolve())}
        peer = First, {"url": arguments.url, "validators": arguments.list}
    elif arguments.command == "refresh":
        peer = Refresh, {"validators": arguments.list}
    else:
        settings["DOWNLOADER_MIDDLEWARES"] = {Validators: 595}
        peer = Obvious, {"url": arguments.url, "known": arguments.list}
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(peer[0])
    process.crawl(crawler, **peer[1])
    process.start()
    assert isinstance(crawler.spider, Measured)
    print(json.dumps(crawler.spider.figures()))


if __name__ == "__main__":
    main()

"""Bare Scrapy doing the same work, as the measure of the benchmarks.

    python bench/peers.py first URL [--list LIST.tsv]
    python bench/peers.py refresh LIST.tsv

`first` follows every link of the seed's host and stores nothing; `refresh` sends the conditional
request of each line (URL, ETag, Last-Modified). Each prints one line of JSON: the pages handed to
the spider, CPU seconds of this process and wall seconds between spider_opened and spider_closed,
the peak of resident memory in MiB, and the count of each status received.

`--list` writes the lines for `refresh`; a run that is measured does without.
"""

import argparse
import json
import resource
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self
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
        }


class First(Measured):
    name = "first"

    def __init__(self, url: str, validators: Path | None = None) -> None:
        super().__init__()
        self.url = url
        # By host and port, before requests are built: cheaper than OffsiteMiddleware alone.
        self.links = LxmlLinkExtractor(allow_domains=[urlsplit(url).netloc])
        self.validators = validators
        self.lines: list[tuple[str, str, str]] = []

    async def start(self) -> AsyncIterator[Request]:
        # Scrapy's own start() hides the seed from the duplicate filter: it would be fetched twice.
        yield Request(self.url)

    def parse(self, response: Response) -> Iterator[Request]:
        self.pages += 1
        if self.validators is not None:
            sent = (response.headers.get(name, b"") for name in ("ETag", "Last-Modified"))
            self.lines.append((response.url, *(value.decode("latin-1") for value in sent)))
        if isinstance(response, HtmlResponse):
            for link in self.links.extract_links(response):
                yield Request(link.url)

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
                url, etag, modified = line.rstrip("\n").split("\t")
                asked = {"If-None-Match": etag, "If-Modified-Since": modified}
                headers = {name: value for name, value in asked.items() if value}
                # As Scrapy's own start() does: a list has no duplicates.
                yield Request(url, headers=headers, dont_filter=True)

    def parse(self, response: Response) -> None:
        self.pages += 1


def main() -> None:
    parser = argparse.ArgumentParser(description="Bare Scrapy, measured.")
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("first", help="follow every link of one host")
    first.add_argument("url")
    first.add_argument("--list", type=Path, help="write URL, ETag and Last-Modified of each page")
    refresh = commands.add_parser("refresh", help="send the conditional requests of a list")
    refresh.add_argument("list", type=Path)
    arguments = parser.parse_args()

    process = CrawlerProcess(SETTINGS)
    if arguments.command == "first":
        crawler = process.create_crawler(First)
        process.crawl(crawler, url=arguments.url, validators=arguments.list)
    else:
        crawler = process.create_crawler(Refresh)
        process.crawl(crawler, validators=arguments.list)
    process.start()
    assert isinstance(crawler.spider, Measured)
    print(json.dumps(crawler.spider.figures()))


if __name__ == "__main__":
    main()

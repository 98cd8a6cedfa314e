"""smartcrawl doing the work of a benchmark, measured as bench/peers.py measures bare Scrapy.

    python bench/ours.py URL|FOLDER DATA_DIR [--source NAME] [--job NAME] [--profile FILE]
        [NAME=VALUE …]

Prints one line of JSON:

- pages visited, CPU seconds of this process (all threads) and of its document readers;
- wall seconds from spider_opened until the run is sealed and everything written;
- the peak of resident memory in MiB, the count of each outcome, the number of 304s and how many of
  them came beside the engine, and the bytes of all answers;
- renderings, and the requests for the data of rendered pages.

Further arguments are Scrapy settings; ``--source`` names a source of SOURCES_FILE instead of the
URL. ``--profile`` writes a profile of each thread, for bench/profile; the CPU seconds are of no use
then.
"""

import argparse
import cProfile
import json
import os
import pstats
import resource
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
os.environ["SCRAPY_SETTINGS_MODULE"] = "smartcrawl.settings"

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.project import get_project_settings

from smartcrawl.spiders.files import FilesSpider
from smartcrawl.spiders.site import SiteSpider

SETTINGS = {
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "LOG_LEVEL": "WARNING",
}


class Profiles:
    """Profiles of this thread from ``begin`` on, and of each thread that starts after ``watch``."""

    def __init__(self) -> None:
        self._profiles: list[cProfile.Profile] = []

    def watch(self) -> None:
        """Look at threads as they start."""
        threading.setprofile(self.begin)

    def begin(self, *_: object) -> None:
        """Look at the thread that calls this."""
        self._profiles.append(cProfile.Profile())
        self._profiles[-1].enable()

    def write(self, path: Path) -> None:
        """End, and write all of it as one."""
        sys.setprofile(None)
        threading.setprofile(None)
        stats = pstats.Stats(self._profiles[0])
        for other in self._profiles[1:]:
            other.create_stats()
            stats.add(other)
        stats.dump_stats(path)


def main() -> None:
    """Crawl once and print the measurement."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("data_dir")
    parser.add_argument("settings", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--source", help="a source of SOURCES_FILE")
    parser.add_argument("--job", help="the run that several of these work on together")
    parser.add_argument("--polite", action="store_true", help="the default politeness settings")
    parser.add_argument("--profile", type=Path, help="a file for the profile of the crawl")
    args = parser.parse_args()
    settings = get_project_settings()
    if not args.polite:
        settings.setdict(SETTINGS, priority="cmdline")
    settings.set("LOG_LEVEL", "WARNING", priority="cmdline")
    settings.set("DATA_DIR", args.data_dir, priority="cmdline")
    settings.setdict(dict(pair.split("=", 1) for pair in args.settings), priority="cmdline")
    process = AsyncCrawlerProcess(settings)
    is_folder = args.url.startswith("/")
    crawler = process.create_crawler(FilesSpider if is_folder else SiteSpider)
    clock: dict[str, float] = {}
    profiles = Profiles()
    if args.profile:
        profiles.watch()

    def opened() -> None:
        clock.update(cpu=time.process_time(), wall=time.perf_counter())
        if args.profile:
            profiles.begin()

    crawler.signals.connect(opened, signal=signals.spider_opened, weak=False)
    where = {"root": args.url} if is_folder else {"url": args.url}
    where = {"source": args.source} if args.source else where
    process.crawl(crawler, **where, **({"job": args.job} if args.job else {}))
    process.start()
    if args.profile:
        profiles.write(args.profile)
    result = crawler.spider.run.result
    others = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = time.process_time() - clock["cpu"] + others.ru_utime + others.ru_stime
    print(
        json.dumps(
            {
                "pages": result.visits
                + (result.reextracted if crawler.spider.run.due_pages else 0),
                "cpu": round(cpu, 3),
                "wall": round(time.perf_counter() - clock["wall"], 3),
                "rss": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
                "statuses": result.counts,
                "complete": result.complete,
                "not_modified": result.not_modified,
                "bytes": crawler.stats.get_value("downloader/response_bytes", 0),
                "lane": crawler.stats.get_value("lane/not_modified", 0),
                "renderings": result.renderings,
                "data_requests": result.data_requests,
            }
        )
    )


if __name__ == "__main__":
    main()

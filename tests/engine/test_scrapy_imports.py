"""Modules of Scrapy that are loaded in a way of their own."""

import subprocess
import sys

_COUNTED = """
import inspect, runpy, sys
from importlib import import_module

real, depths = inspect.stack, []

def counted(*args):
    found = real(*args)
    depths.append(len(found))
    return found

inspect.stack = counted
sys.argv = ["scrapy", "version"]
try:
    runpy.run_module("scrapy", run_name="__main__")
finally:
    from scrapy.core.downloader import contextfactory, tls

    classes = tls.ScrapyClientTLSOptions, contextfactory.ScrapyClientContextFactory
    print(*depths, *(one.__module__ for one in classes), inspect.stack is counted)
"""


def test_no_stack_is_read_when_a_crawl_starts():
    """Scrapy reads the source of every caller: a command took half a second longer to start."""
    found = subprocess.run(
        [sys.executable, "-c", _COUNTED], capture_output=True, text=True, check=True
    )

    assert found.stdout.splitlines()[-1].split() == [
        "scrapy.core.downloader.tls", "scrapy.core.downloader.contextfactory", "True"
    ]  # fmt: skip

"""Modules of Scrapy that are loaded in a way of their own."""

import subprocess
import sys

_COUNTED = """
import inspect, runpy, sys

real, frames = inspect.stack, []

def counted(*args):
    found = real(*args)
    frames.append(len(found))
    return found

inspect.stack = counted
sys.argv = ["scrapy", "version"]
try:
    runpy.run_module("scrapy", run_name="__main__")
finally:
    print(*frames)
"""


def test_no_deep_stack_is_read_when_a_crawl_starts():
    """Scrapy reads the source of every caller: a command took half a second longer to start."""
    found = subprocess.run(
        [sys.executable, "-c", _COUNTED], capture_output=True, text=True, check=True
    )
    frames = [int(number) for number in found.stdout.splitlines()[-1].split()]

    assert frames, "Scrapy reads no stack any more: load its modules as any other"
    assert max(frames) < 30

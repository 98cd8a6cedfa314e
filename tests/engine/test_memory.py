"""Memory that large pages took, and garbage."""

import gc
import platform
import subprocess
import sys
import weakref
from contextlib import suppress

import pytest
from scrapy import Request
from scrapy.http import Response

from smartcrawl.engine.download.decoding import DecodingMiddleware
from smartcrawl.engine.memory import rare_garbage_collection
from smartcrawl.extract.encodings import EncodingError

#: Prints how many MiB go when every other block of 2 MiB is freed, after one of 30 MiB was.
_FREED = """
import re
from smartcrawl.engine.memory import return_engine_memory

def taken():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024

return_engine_memory()
bytearray(30 << 20)
blocks = [bytearray(2 << 20) for _ in range(40)]
before = taken()
del blocks[::2]
print(before - taken())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is about glibc")
def test_large_blocks_go_back_when_they_are_free():
    """ATT-34: copies of one long page, made one after the other, do not add up."""
    printed = subprocess.run(
        [sys.executable, "-c", _FREED], capture_output=True, text=True, check=True
    )

    assert 38 <= int(printed.stdout) <= 42


#: Prints how many MiB go when 40 MiB of small blocks are freed, below one that is in use.
_TRIMMED = """
import re
from smartcrawl.model.memory import return_freed_memory

def taken():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024

blocks = [bytearray(4_000) for _ in range(10_000)]
above = bytearray(4_000)
del blocks
before = taken()
return_freed_memory()
print(before - taken())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is about glibc")
def test_small_blocks_go_back_though_one_above_them_is_in_use():
    printed = subprocess.run(
        [sys.executable, "-c", _TRIMMED], capture_output=True, text=True, check=True
    )

    assert 30 <= int(printed.stdout) <= 42


def test_garbage_is_looked_for_rarely_while_a_crawl_lasts():
    before = gc.get_threshold()

    with suppress(KeyboardInterrupt), rare_garbage_collection():
        assert gc.get_threshold() == (50_000, *before[1:])
        raise KeyboardInterrupt

    assert gc.get_threshold() == before


def test_bodies_that_cannot_be_decoded_do_not_wait_for_a_rare_collection():
    """A traceback keeps each of them; a site that packs all pages wrongly would fill the memory."""
    decoding = DecodingMiddleware(max_size=0)
    gc.disable()
    try:
        undecoded = [refused(decoding, size=16 << 20) for _ in range(3)]
        assert all(response() is not None for response in undecoded)

        undecoded.append(refused(decoding, size=16 << 20))
        assert [response() is None for response in undecoded] == [True, True, True, False]

        undecoded = [refused(decoding, size=16 << 20) for _ in range(3)]
        assert all(response() is not None for response in undecoded)  # it counts anew
    finally:
        gc.enable()


def refused(decoding, size):
    """Have a body refused; return a weak reference to the answer, which its own cycle keeps."""
    headers = {"Content-Encoding": "gzip"}
    response = Response("http://a.example/", headers=headers, body=b"\x1f\x8b" + bytes(size))
    response.request = Request(response.url)
    with pytest.raises(EncodingError) as refusal:
        decoding.process_response(response.request, response)
    refusal.value.of = response
    response.meta["error"] = refusal.value
    return weakref.ref(response)

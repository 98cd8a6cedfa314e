"""Memory that large pages took."""

import platform
import subprocess
import sys

import pytest

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
    told = subprocess.run(
        [sys.executable, "-c", _FREED], capture_output=True, text=True, check=True
    )

    assert 38 <= int(told.stdout) <= 42

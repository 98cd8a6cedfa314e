"""The program that the user called, and the packages of its extras, for messages.

The program that the user called, for messages that name a command to run next.

The same commands are called as ``scrapy status`` inside a project, and as ``smartcrawl status``
from any folder. A message names the one that works where it was printed.

The packages of the extras, and the commands that install them.

A message names the packages themselves: our own name at a package index is not ours.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

OURS: Final = "smartcrawl"
SCRAPYS: Final = "scrapy"


def program_name() -> str:
    """Return the name of the called program: ``smartcrawl``, or ``scrapy`` for any other."""
    called = Path(sys.argv[0])
    name = called.parent.name if called.name == "__main__.py" else called.stem
    return OURS if name == OURS else SCRAPYS


def program_crawl_line(start: str, *, is_root: bool = False) -> str:
    """Return the command line that crawls one address, or one folder."""
    arguments = f"files -a root={start}" if is_root else f"site -a url={start}"
    return f"{OURS} crawl {start}" if program_name() == OURS else f"{SCRAPYS} crawl {arguments}"


def program_argument(name: str, value: str = "1") -> str:
    """Return an argument of a crawl as the called program takes it; ``value`` "1": a switch.

    >>> program_argument("resume"), program_argument("source", "docs")
    ('-a resume=1', '-a source=docs')
    """
    if program_name() != OURS:
        return f"-a {name}={value}"
    if name in ("url", "root"):
        return value  # a word without an option
    option = f"--{name.replace('_', '-')}"
    return option if value == "1" else f"{option} {value}"


def program_argument_label(name: str) -> str:
    """Return the words for an argument of a crawl whose value follows."""
    if program_name() != OURS:
        return f"-a {name}"
    return {"url": "the address", "root": "the folder"}.get(name, f"--{name}")


def program_as_typed() -> str:
    """Return the program as it is typed in this folder: a path, or a name on the PATH.

    A path below this folder is relative; one elsewhere is whole, unless the PATH leads to it.
    """
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return "python -m smartcrawl" if program_name() == OURS else SCRAPYS
    if called.stem != program_name():  # another program of Python, which has our modules
        return program_name()
    shown = os.path.relpath(called) if called.is_absolute() else str(called)
    if not shown.startswith(".."):
        return shlex.quote(shown)
    from shutil import which  # noqa: PLC0415  # it brings three packers of archives along

    is_on_path = which(program_name()) == str(called)
    return program_name() if is_on_path else shlex.quote(str(called))


#: Requirements of each extra; pyproject.toml has the same.
EXTRAS: Final[dict[str, tuple[str, ...]]] = {
    "s3": ("s3fs==2026.9.0",),
    "azure": ("adlfs==2026.8.0",),
    "vectors": (
        "wordllama==0.4.0.post1",
        "tokenizers==0.23.3",
        "safetensors==0.8.0",
        "numpy==2.4.6",
        "sqlite-vec==0.1.9",
    ),
    "onnx": ("onnxruntime==1.32.0", "tokenizers==0.23.3", "numpy==2.4.6", "sqlite-vec==0.1.9"),
    "openai": ("openai==3.52.0", "sqlite-vec==0.1.9"),
    "mcp": ("mcp==2.3.0",),
    "notify": ("apprise==2.2.0",),
    "sharepoint": ("msal==1.39.0",),
    "libraries": ("msal==1.39.0", "openai==3.52.0"),
}


def extra_installation(extra: str) -> str:
    """Return the commands that install an extra, as part of a message.

    >>> extra_installation("mcp")
    "pip install 'mcp==2.3.0', in a checkout script/setup mcp"
    """
    packages = " ".join(f"'{package}'" for package in EXTRAS[extra])
    return f"pip install {packages}, in a checkout script/setup {extra}"

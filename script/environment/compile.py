"""Import the modules that a crawl loads, so that Python keeps their compiled form.

pip would compile every module of every package, among them tests and examples; that takes longer
than the download, and 60 MB.
"""

import compileall
import importlib
import pkgutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Import smartcrawl as a whole, and compile what Scrapy loads by the names in its settings."""
    sys.path.insert(0, str(ROOT))
    smartcrawl = importlib.import_module("smartcrawl")
    for module in pkgutil.walk_packages(smartcrawl.__path__, "smartcrawl."):
        importlib.import_module(module.name)
    (scrapy,) = importlib.import_module("scrapy").__path__
    compileall.compile_dir(scrapy, quiet=2)


if __name__ == "__main__":
    main()

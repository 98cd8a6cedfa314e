"""Import the modules that a crawl loads, so that Python keeps their compiled form.

pip would compile every module of every package, among them tests and examples; that takes longer
than the download, and 60 MB.
"""

import importlib
import pkgutil
import sys
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What only extras bring; a module of smartcrawl that needs one is left out without it.
OF_EXTRAS = frozenset(
    ("apprise", "azure", "httpx2", "mcp", "msal", "numpy", "onnxruntime", "openai", "safetensors",
     "sqlite_vec", "tokenizers", "wordllama")
)  # fmt: skip


def main() -> None:
    """Import smartcrawl and what Scrapy loads by the names in its settings.

    Raises:
        ImportError: a module lacks a package that no extra brings.
    """
    sys.path.insert(0, str(ROOT))
    smartcrawl = importlib.import_module("smartcrawl")
    for module in pkgutil.walk_packages(smartcrawl.__path__, "smartcrawl."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in OF_EXTRAS:
                raise
    scrapy = importlib.import_module("scrapy")
    for module in pkgutil.walk_packages(scrapy.__path__, "scrapy."):
        if module.name != "scrapy.__main__":
            with suppress(ImportError):  # parts of Scrapy need packages that a crawl does not
                importlib.import_module(module.name)
    with suppress(ImportError):  # which rich loads with its first text
        importlib.import_module("rich._emoji_codes")


if __name__ == "__main__":
    main()

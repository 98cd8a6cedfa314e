"""Downloads of a crawl: handlers, headers, certificates, and the addresses that may be asked."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType

#: Where Scrapy defines a deprecated class, it asks for the module of its caller by way of the
#: source of each frame (inspect.stack) and the files of all modules: half a second of a start.
_DEPRECATED = ("scrapy.core.downloader.tls", "scrapy.core.downloader.contextfactory")


@contextmanager
def _known_callers() -> Iterator[None]:
    """Let ``inspect.stack`` return modules in place of frames and sources."""
    whole, inspect.stack = inspect.stack, _modules_of_callers  # type: ignore[assignment]
    try:
        yield
    finally:
        inspect.stack = whole


def _modules_of_callers() -> list[tuple[ModuleType]]:
    first, second = sys._getframe(1), sys._getframe(2)
    return [(sys.modules[frame.f_globals["__name__"]],) for frame in (first, second)]


with _known_callers():
    for _name in _DEPRECATED:
        import_module(_name)

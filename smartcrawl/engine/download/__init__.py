"""Downloads of a crawl: handlers, headers, certificates, and the addresses that may be asked."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

#: Scrapy reads the source of each caller (inspect.stack) where it defines a deprecated class. The
#: stack of a new thread is short: this takes half a second off the start of a command.
_DEPRECATED = ("scrapy.core.downloader.tls", "scrapy.core.downloader.contextfactory")

with ThreadPoolExecutor(1) as _thread:
    for _name in _DEPRECATED:
        _thread.submit(import_module, _name).result()

"""smartcrawl keeps a search index true to its sources and never deletes without evidence."""

from smartcrawl._moved import install

__version__ = "0.1.0"

install()

"""smartcrawl keeps a search index true to its sources and never deletes without evidence."""

__version__ = "0.1.0"

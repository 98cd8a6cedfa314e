"""The decisions of a crawl, apart from every clock, socket and table."""

"""Pages that a browser shows: their requests answered by the downloader of the crawl."""

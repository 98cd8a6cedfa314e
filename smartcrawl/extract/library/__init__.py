"""List items and site pages of document libraries as Markdown, CSV and cleaned HTML."""

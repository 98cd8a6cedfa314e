"""The login of a source in Scrapy (ADR 146)."""

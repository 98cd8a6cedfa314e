"""The revalidation lane: conditional requests beside Scrapy's engine (design.md 10)."""

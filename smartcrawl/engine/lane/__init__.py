"""The revalidation lane: known pages asked beside Scrapy's engine (design.md 10)."""

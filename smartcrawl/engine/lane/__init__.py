"""The revalidation lane: conditional requests beside Scrapy's engine (ADR 31)."""

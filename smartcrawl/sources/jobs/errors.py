"""Errors of jobs; the routes put them into the envelope of R2-09."""

from __future__ import annotations

from typing import Final

from smartcrawl.model.exceptions import SmartcrawlError

INVALID_INPUT: Final = "INVALID_INPUT"
INVALID_CONFIG: Final = "INVALID_CONFIG"
INVALID_URL: Final = "INVALID_URL"
NOT_FOUND: Final = "NOT_FOUND"
CONFLICT: Final = "CONFLICT"
#: The message of each code (R2-10, R2-11).
_MESSAGES: Final = {
    INVALID_INPUT: "Request validation failed",
    INVALID_CONFIG: "Crawl configuration is invalid",
    INVALID_URL: "URL format is invalid",
    NOT_FOUND: "Crawl job not found",
    CONFLICT: "The job is in another state",
}


class JobError(SmartcrawlError):
    """A request about jobs that is refused; ``message`` None: the one of the code."""

    def __init__(
        self, code: str, *, field: str | None = None, reason: str, message: str | None = None
    ) -> None:
        self.code = code
        self.message = _MESSAGES[code] if message is None else message
        self.field = field
        self.reason = reason
        super().__init__(f"{self.message}: {reason}")

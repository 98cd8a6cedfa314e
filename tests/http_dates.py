"""Dates of HTTP and the ISO times that they mean."""

from calendar import month_abbr

#: One in each month: as received, and in ISO.
DATES_OF_MONTHS = [
    (f"Mon, 09 {month_abbr[number]} 2026 00:00:01 GMT", f"2026-{number:02}-09T00:00:01Z")
    for number in range(1, 13)
]

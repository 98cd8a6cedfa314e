"""A picture of the days on which visits are due."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from smartcrawl.reports.page_chart import Drawing, bar_chart
from smartcrawl.reports.text import report_noun


def due_days_title(due: Mapping[str, Any]) -> str:
    """Return what is found about due days; ``due``: as of ``/api/v1/frontier/due``.

    >>> days = [{"date": "2024-01-20", "count": 0}, {"date": "2024-01-21", "count": 3}]
    >>> due_days_title({"due": 2, "days": days, "later": 0})
    '2 visits are due now; of those to come, most on 2024-01-21: 3'
    >>> due_days_title({"due": 0, "days": days, "later": 1})
    'No visit is due now; of those to come, most on 2024-01-21: 3'
    >>> due_days_title({"due": 1, "days": [], "later": 0})
    '1 visit is due now; none on the days that follow'
    """
    now = f"{report_noun(due['due'], 'visit')} {'is' if due['due'] == 1 else 'are'}"
    first = f"{now if due['due'] else 'No visit is'} due now"
    most = max(due["days"], key=lambda day: day["count"], default={"count": 0})
    if not most["count"]:
        return f"{first}; none on the days that follow"
    return f"{first}; of those to come, most on {most['date']}: {most['count']:,}"


def due_days_chart(due: Mapping[str, Any]) -> Drawing:
    """Return the picture of due days; ``due``: as for the title."""
    dates = [date.fromisoformat(day["date"]) for day in due["days"]]
    names = [f"{each:%m-%d}" for each in dates]
    bars = [
        ("now", due["due"]),
        *zip(names, (day["count"] for day in due["days"]), strict=True),
        ("later", due["later"]),
    ]
    return bar_chart(
        bars,
        name="due",
        title=due_days_title(due),
        description=f"addresses by the day on which their visit is due, {len(bars)} bars",
        x_axis="day, UTC",
        y_axis="addresses",
    )

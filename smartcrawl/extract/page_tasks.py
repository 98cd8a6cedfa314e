"""A page to read, as this process or another one does it."""

from __future__ import annotations

from smartcrawl.extract import html
from smartcrawl.extract.wire import PageTask, Selected
from smartcrawl.model.documents import Document


def read_page_task(task: PageTask, selected: Selected) -> Document:
    """Return the document of a page, as ``html.parse_html`` with the arguments of a task."""
    return html.parse_html(
        task.body,
        content_type=task.content_type,
        url=task.url,
        keep=selected.keep,
        drop=selected.drop,
        links=task.links,
        detect=task.detect,
        routes=selected.routes,
    )

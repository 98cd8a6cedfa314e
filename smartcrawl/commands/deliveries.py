"""The delivery of notices at the end of a command."""

from __future__ import annotations

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.options import Options


def deliver_command_notices(options: Options) -> SmartcrawlError | None:
    """Send the notices that wait, for ten seconds at most; later commands send the rest.

    Return the error that prevented it, which is logged.
    """
    if options.notify:
        from smartcrawl.run.notices import deliver_notices  # noqa: PLC0415  # else none is needed

        return deliver_notices(options)
    return None

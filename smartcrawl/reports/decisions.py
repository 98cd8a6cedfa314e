"""What the sources would do with an address today, whether it is known or not, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from smartcrawl.model.options import Options
from smartcrawl.model.urls import normalize_url, request_url, url_digest, url_origin
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.purge import known_record_rows
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.story_text import story_robots_text
from smartcrawl.reports.today import reported_sources_today
from smartcrawl.rules.login import is_logout_address
from smartcrawl.rules.model import Mode
from smartcrawl.sources.base import Source, SourceExtractionConfig
from smartcrawl.sources.scope import compile_scope_pattern
from smartcrawl.sources.site import SiteSource

#: What becomes of an address, by the mode of its page.
_MODES: Final = {
    Mode.INDEX: "requested once a page links to it, and indexed",
    Mode.LINKS_ONLY: "requested once a page links to it; its links count, and it is not indexed",
    Mode.NONE: "requested once a page links to it; neither its text nor its links count",
}
_LOGS_OUT: Final = "it would log out"


class AddressDecisions:
    """The decisions of some sources, as their next runs would take them."""

    def __init__(
        self,
        connection: Connection,
        options: Options,
        declared: Mapping[str, Source],
        robots: RobotsOfSources,
        names: Iterable[str],
    ) -> None:
        """``names``: of the sources; ``robots``: as for ``Stories``."""
        self._connection = connection
        self._options = options
        self._robots = robots
        self._today = reported_sources_today(connection, declared, names)
        self._modes = {
            source.name: SourceExtractionConfig.of(source, options) for source in self._today
        }

    def about(self, url: str, may_read: Callable[[str], bool]) -> dict[str, Any]:
        """Return the decisions of those sources that have the place of an address.

        ``url``: an address that can be requested, or that of a file. ``may_read``: whether the
        reader may know of a source, and of its records.
        """
        requested = request_url(url) or url
        key = url_digest(normalize_url(requested, self._options.trackers))
        records = [
            {"no": page.no, "source": page.source}
            for page in known_record_rows(self._connection, key, requested)
            if may_read(page.source)
        ]
        decisions = self.decided(requested)
        taking = [one["source"] for one in decisions if one["isTaken"]]
        if taking:
            sentence = f"Taken by {', '.join(taking)}."
        elif decisions:
            sentence = "Left out by every source that has its host."
        else:
            sentence = "No source has its host in scope."
        return {"records": records, "sources": decisions, "sentence": sentence}

    def decided(self, url: str) -> list[dict[str, Any]]:
        """Return the decision of each source that has the place of a request URL."""
        of_place = [one for one in self._today if one.scope.holds(url)]
        return [self._decided(one, url) for one in of_place]

    def _decided(self, source: Source, url: str) -> dict[str, Any]:
        """Return the decision of a source, and each of its parts."""
        refusal, is_listed = source.scope.refusal(url), source.lists(url)
        name, login = source.name, login_decision(source, url)
        rule = None if is_listed else self._robots.rule(url, name)
        forbidden = None
        if not is_listed and self._robots.is_obeyed(name):
            forbidden = self._robots.of(name).forbids(url)
        logs_out = _LOGS_OUT if login is not None and login["logsOut"] else None
        why = refusal or forbidden or logs_out
        mode = self._modes[name].mode_of(url)
        then = "read once the listing contains it" if is_listed else _MODES[mode]
        if login is not None and login["isSent"]:
            then += "; with the login of the source"
        return {
            "source": name,
            "isTaken": why is None,
            "text": then if why is None else f"left out: {why}",
            "scope": {"allowed": refusal is None, "why": refusal},
            "robots": rule,
            "robotsText": story_robots_text(rule),
            "login": login,
            "mode": mode.word,
        }


def login_decision(source: Source, url: str) -> dict[str, Any] | None:
    """Return whether a source sends its credentials to an address, and whether that logs out.

    None: it has no login.
    """
    if not isinstance(source, SiteSource) or source.auth is None:
        return None
    is_sent = url_origin(url) in source.login_origins
    patterns = map(compile_scope_pattern, source.auth.logout_patterns)
    logs_out = is_logout_address(url) or any(pattern.search(url) for pattern in patterns)
    return {"isSent": is_sent and not logs_out, "logsOut": is_sent and logs_out}

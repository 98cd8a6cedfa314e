"""The wiki of a repository: pages of the web, which links lead to (ADR 68)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from smartcrawl.model.urls import request_url, url_host_key
from smartcrawl.sources.scope import FixedScope, SiteScope

_IS_VERSION: Final = re.compile(r"[0-9a-f]{40}").fullmatch  #: SHA of a commit of the wiki


@dataclass(frozen=True, slots=True)
class WikiScope(FixedScope):
    """The pages of a wiki by their names, without its functions and old versions.

    >>> scope = WikiScope("https://github.com/octo/docs/wiki")
    >>> scope.allows("https://github.com/octo/docs/wiki/Setup")
    True
    >>> scope.refusal("https://github.com/octo/docs/wiki/Setup/_history")
    '_history is a function of the wiki, and no page'
    """

    root: str  #: URL of the front of the wiki, without a slash at its end

    @property
    def hosts(self) -> frozenset[str]:
        """The host of the wiki."""
        return frozenset({url_host_key(self.root)})

    def holds(self, url: str) -> bool:
        """Whether a URL is in the wiki; GitHub ignores the case of owner and repository."""
        size = len(self.root)
        return url[:size].lower() == self.root.lower() and url[size : size + 1] in ("", "/", "?")

    def refusal(self, url: str) -> str | None:
        """Return the reason why ``url`` is no page of the wiki, or None if it is one."""
        known = request_url(url) or url
        if not self.holds(known):
            return f"it is not in the wiki {self.root}"
        path, mark, _ = known[len(self.root) :].partition("?")
        if mark:
            return "a page of a wiki has no query"
        names = path.strip("/").split("/")
        function = next((name for name in names if name.startswith("_")), None)
        if function is not None:
            return f"{function} is a function of the wiki, and no page"
        if len(names) > 1 and _IS_VERSION(names[-1]):
            return "it is an old version of a page"
        return SiteScope(hosts=self.hosts).refusal(known)

    def fingerprint(self) -> bytes:
        """Return a 16-byte digest of the settings that ``allows`` depends on (M-15)."""
        return sha256(json.dumps(["wiki", self.root]).encode()).digest()[:16]

"""The settings of the HTTP API, read and validated once, before it listens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Self
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.robots_options import RobotsOptions
from smartcrawl.model.settings_table import setting_value


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of the HTTP API. No field has a default: defaults are in ``settings.py``."""

    host: str  #: address to listen at
    port: int  #: 0: a free one
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...]  #: whose X-Forwarded-For counts
    jobs_limit: int  #: requests a minute that change something (R2-07)
    data_limit: int  #: requests a minute for documents and searches
    monitoring_limit: int  #: requests a minute for states and counts
    require_idempotency_key: bool  #: whether a request without one is refused (M-40)
    max_running_jobs: int  #: crawls of jobs at once; others wait in order
    scrapyd_url: str = field(repr=False)  #: it may have a password; "": processes of this machine
    scrapyd_project: str
    robots: RobotsOptions

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        value_of = partial(setting_value, settings)
        return cls(
            host=value_of("API_HOST"),
            port=value_of("API_PORT"),
            trusted_proxies=value_of("API_TRUSTED_PROXIES"),
            jobs_limit=value_of("API_JOBS_PER_MINUTE"),
            data_limit=value_of("API_DATA_PER_MINUTE"),
            monitoring_limit=value_of("API_MONITORING_PER_MINUTE"),
            require_idempotency_key=value_of("API_REQUIRE_IDEMPOTENCY_KEY"),
            max_running_jobs=value_of("MAX_RUNNING_JOBS"),
            scrapyd_url=_scrapyd_url(settings),
            scrapyd_project=value_of("SCRAPYD_PROJECT"),
            robots=RobotsOptions.of(settings),
        )

    @property
    def keys_required(self) -> bool:
        """Whether every request needs a key: others than processes of this machine may come."""
        return bool(self.trusted_proxies) or not ip_address(self.host).is_loopback


def _scrapyd_url(settings: Mapping[str, Any]) -> str:
    """Return the address of scrapyd; an error does not repeat it, for it may have a password."""
    value = setting_value(settings, "SCRAPYD_URL")
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_plain = not parts.query and not parts.fragment and value.isascii()
    except ValueError:
        is_url = is_plain = False
    if value and not (is_url and is_plain and value.isprintable() and " " not in value):
        raise SettingError(
            "SCRAPYD_URL is not the address of a scrapyd: it takes one such as"
            " http://NAME:PASSWORD@localhost:6800/, with the name and the password"
            " percent-encoded, or nothing for processes of this machine"
        )
    return str(value)

"""The settings of the HTTP API, read and validated once, before it listens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from typing import Any, Final, Self
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.robots_options import RobotsOptions
from smartcrawl.model.setting_values import (
    network_list_option,
    switch_option,
    whole_number_option,
)

_MOST_PORT = 65_535
_PROJECT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)


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
        port = whole_number_option(settings, "API_PORT")
        if port > _MOST_PORT:
            raise SettingError(
                f"API_PORT is {settings['API_PORT']!r}: it takes a port from 1 to 65535, or 0 for"
                " a free one"
            )
        return cls(
            host=_address(settings),
            port=port,
            trusted_proxies=network_list_option(settings, "API_TRUSTED_PROXIES"),
            jobs_limit=whole_number_option(settings, "API_JOBS_PER_MINUTE", least=1),
            data_limit=whole_number_option(settings, "API_DATA_PER_MINUTE", least=1),
            monitoring_limit=whole_number_option(settings, "API_MONITORING_PER_MINUTE", least=1),
            require_idempotency_key=switch_option(settings, "API_REQUIRE_IDEMPOTENCY_KEY"),
            max_running_jobs=whole_number_option(settings, "MAX_RUNNING_JOBS", least=1),
            scrapyd_url=_scrapyd_url(settings),
            scrapyd_project=_scrapyd_project(settings),
            robots=RobotsOptions.of(settings),
        )

    @property
    def keys_required(self) -> bool:
        """Whether every request needs a key: others than processes of this machine may come."""
        return bool(self.trusted_proxies) or not ip_address(self.host).is_loopback


def _address(settings: Mapping[str, Any]) -> str:
    """Return the address to listen at; a name could stand for another one tomorrow."""
    value = str(settings["API_HOST"]).strip()
    if value == "localhost":
        return "127.0.0.1"
    try:
        return str(ip_address(value.strip("[]")))
    except ValueError as error:
        raise SettingError(
            f"API_HOST is {settings['API_HOST']!r}: it takes an IP address of this machine such as"
            " 127.0.0.1 or ::1, or 0.0.0.0 for all of them"
        ) from error


def _scrapyd_url(settings: Mapping[str, Any]) -> str:
    """Return the address of scrapyd; an error does not repeat it, for it may have a password."""
    value = str(settings["SCRAPYD_URL"]).strip()
    try:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        is_plain = not parts.query and not parts.fragment and value.isascii()
    except ValueError:
        is_url = is_plain = False
    if value and not (is_url and is_plain and value.isprintable() and " " not in value):
        raise SettingError(
            "SCRAPYD_URL is no address of a scrapyd: it takes one such as"
            " http://NAME:PASSWORD@localhost:6800/, with the name and the password"
            " percent-encoded, or nothing for processes of this machine"
        )
    return value


def _scrapyd_project(settings: Mapping[str, Any]) -> str:
    value = str(settings["SCRAPYD_PROJECT"]).strip()
    if not _PROJECT.fullmatch(value):
        raise SettingError(
            f"SCRAPYD_PROJECT is {settings['SCRAPYD_PROJECT']!r}: it takes the name of the project"
            " in scrapyd, such as smartcrawl"
        )
    return value

"""The settings by which robots.txt is read."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

from smartcrawl.model.exceptions import SettingError


@dataclass(frozen=True, slots=True)
class RobotsOptions:
    """The parser of robots.txt, and the robot that it is read for."""

    parser: type[Any]  #: of Scrapy's RobotParser interface
    agent: str | None  #: for which robots.txt is read; None: for ``user_agent``
    user_agent: str

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options.

        Raises:
            SettingError: ROBOTSTXT_PARSER names no parser.
        """
        agent = settings.get("ROBOTSTXT_USER_AGENT") or None
        return cls(robots_parser_option(settings), agent, str(settings["USER_AGENT"]))


def robots_parser_option(settings: Mapping[str, Any]) -> type[Any]:
    """Return the class of Scrapy's RobotParser interface that reads robots.txt.

    Raises:
        SettingError: ROBOTSTXT_PARSER names no such class.
    """
    value = settings["ROBOTSTXT_PARSER"]
    module, _, name = str(value).rpartition(".")
    found: Any = None
    with suppress(ImportError, AttributeError, ValueError):
        found = value if isinstance(value, type) else getattr(import_module(module), name)
    methods = ("from_crawler", "allowed", "crawl_delay")
    if not (isinstance(found, type) and all(hasattr(found, method) for method in methods)):
        raise SettingError(
            f"ROBOTSTXT_PARSER is {value!r}: it takes a class of Scrapy's RobotParser interface"
            " such as smartcrawl.extract.robots_txt.Rfc9309RobotParser or"
            " smartcrawl.extract.robots_txt.AllowFirstRobotParser"
        )
    return found

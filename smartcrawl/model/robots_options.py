"""The settings by which robots.txt is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from smartcrawl.model.settings_table import ROBOTS_PARSER


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
    return ROBOTS_PARSER.loaded(settings["ROBOTSTXT_PARSER"])

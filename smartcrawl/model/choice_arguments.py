"""The arguments of a crawl that choose keys of the source that they name by its start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class ChoiceArgument(NamedTuple):
    """An argument of a crawl that chooses a key of the source."""

    site: str | None  #: its key of a web site
    listed: str | None  #: its key of a source of files; None: there is none
    metavar: str
    meaning: str
    repeats: bool = False  #: it may be given often; the argument of the spider has a line for each


#: By the name of the argument.
CHOICE_ARGUMENTS: Final[Mapping[str, ChoiceArgument]] = {
    "depth": ChoiceArgument(
        "max_depth", None, "LINKS", "follow at most LINKS links from the address; 0: any number"
    ),
    "include": ChoiceArgument(
        "url_patterns", "include", "PATTERN",
        "crawl only what PATTERN matches: a regular expression, for files a glob", repeats=True,
    ),
    "exclude": ChoiceArgument(
        "excluded_patterns", "exclude", "PATTERN", "leave out what PATTERN matches", repeats=True
    ),
    "delay": ChoiceArgument(
        "delay", None, "SECONDS", "wait SECONDS between two requests to a host, at least"
    ),
    "header": ChoiceArgument(
        "headers", None, "LINE", "send a header 'Name: value' to the host of the address",
        repeats=True,
    ),
    "user_agent": ChoiceArgument("user_agent", None, "TEXT", "send TEXT as the User-Agent"),
}  # fmt: skip

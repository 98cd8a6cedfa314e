"""Values of single settings, read by their kind: numbers, choices, words, ports, networks.

Each function raises a SettingError that names the setting, its value, and the values that it takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any

from smartcrawl.model.authorities import authority_file_option
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.given_numbers import MOST_NUMBER, given_number, given_number_bounds
from smartcrawl.rules.absence import PASSING

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
CMDLINE = 40  #: priority of settings that are given with -s, as Scrapy counts
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def is_given_option(settings: Mapping[str, Any], name: str) -> bool:
    """Whether ``-s`` gave a setting, which makes it an order for this run alone."""
    priority = getattr(settings, "getpriority", None)
    return priority is not None and (priority(name) or 0) >= CMDLINE


def number_option(
    settings: Mapping[str, Any], name: str, *, least: float, most: float = MOST_NUMBER
) -> float:
    """Return a number from ``least`` to ``most``."""
    value = settings[name]
    try:
        number = float(value)
    except OverflowError:
        number = float("inf")
    except (TypeError, ValueError):
        number = float("nan")
    if not least <= number <= most:
        has_bound = most != MOST_NUMBER or number > most
        bounds = f"from {least:g} to {most:.12g}" if has_bound else f"of at least {least:g}"
        raise SettingError(f"{name} is {value!r}: it takes a number {bounds}")
    return number


def whole_number_option(
    settings: Mapping[str, Any], name: str, *, least: int = 0, most: int = MOST_NUMBER
) -> int:
    """Return a whole number from ``least`` to ``most``."""
    value = settings[name]
    try:
        number = int(value) if isinstance(value, str | int) else least - 1
    except ValueError:
        number = (isinstance(value, str) and given_number(value.strip())) or least - 1
    if not least <= number <= most:
        bounds = given_number_bounds(least, most, beyond=number > most)
        raise SettingError(f"{name} is {value!r}: it takes a whole number {bounds}")
    return number


def choice_option(settings: Mapping[str, Any], name: str, *choices: str) -> str:
    """Return one of ``choices``, in lower case."""
    value = str(settings[name]).strip().lower()
    if value not in choices:
        raise SettingError(f"{name} is {settings[name]!r}: it takes one of {', '.join(choices)}")
    return value


def log_level_option(settings: Mapping[str, Any]) -> str | int:
    """Return the lowest level that is logged; Scrapy takes its number, too."""
    value = settings["LOG_LEVEL"]
    if value not in LEVELS and not (isinstance(value, int) and not isinstance(value, bool)):
        raise SettingError(f"LOG_LEVEL is {value!r}: it takes one of {', '.join(LEVELS)}")
    return value  # type: ignore[no-any-return]  # one of both


def switch_option(settings: Mapping[str, Any], name: str) -> bool:
    """Return a switch; its value was checked against ``options.SWITCH`` before."""
    return str(settings[name]).lower() in ("1", "true")


def table_name_option(settings: Mapping[str, Any], name: str) -> str:
    """Return a name for a table of the registry."""
    value = str(settings[name]).strip()
    if not _TABLE.fullmatch(value) or value.lower().startswith("sqlite_"):
        raise SettingError(
            f"{name} is {settings[name]!r}: it takes a word of up to 63 letters, digits and _ that"
            " begins with neither a digit nor sqlite_, such as IngestItems"
        )
    return value


def word_list_option(settings: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return the words of a list or of a text with commas, in lower case, without empty ones.

    A whole number is a word, and None stands for no words.
    """
    value = "" if settings[name] is None else settings[name]
    if isinstance(value, bool) or not isinstance(value, str | int | list | tuple | set | frozenset):
        raise SettingError(
            f"{name} is {value!r}: it takes a list, or a text with commas between the words"
        )
    parts = map(str, value) if not isinstance(value, str | int) else str(value).split(",")
    return tuple(part.strip().lower() for part in parts if part.strip())


def port_list_option(settings: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """Return TCP ports."""
    words = word_list_option(settings, name)
    ports = tuple(int(word) for word in words if word.isascii() and word.isdecimal())
    if len(ports) != len(words) or not all(0 < port < 65_536 for port in ports):
        raise SettingError(
            f"{name} is {settings[name]!r}: it takes ports such as 8080,8443, from 1 to 65535"
        )
    return ports


def statuses_option(settings: Mapping[str, Any], name: str) -> frozenset[int] | None:
    """Return HTTP statuses from 400 to 499; None for ``*``, which stands for all that may count."""
    words = word_list_option(settings, name)
    if words == ("*",):
        return None
    try:
        statuses = frozenset(int(word) for word in words)
    except ValueError:
        statuses = frozenset({0})
    if not all(400 <= status <= 499 and status not in PASSING for status in statuses):
        raise SettingError(
            f"{name} is {settings[name]!r}: it takes HTTP statuses from 400 to 499 such as 404,410,"
            " or *; 408, 425, 429 and 5xx say nothing about a page and never lead to its removal"
        )
    return statuses


def authorities_option(settings: Mapping[str, Any], name: str) -> Path | None:
    """Return the path of a file of certificate authorities; None when the setting is empty."""
    value = str(settings[name] or "").strip()
    if not value:
        return None
    try:
        return authority_file_option(value)
    except ValueError as error:
        raise SettingError(f"{name} is {value!r}: {error}") from error


def network_list_option(
    settings: Mapping[str, Any], name: str
) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return IP networks."""
    try:
        return tuple(ip_network(word) for word in word_list_option(settings, name))
    except ValueError as error:
        raise SettingError(
            f"{name} is {settings[name]!r}: {error};"
            " it takes networks such as 10.20.0.0/16, fd12:3456:789a::/48, separated by commas"
        ) from error

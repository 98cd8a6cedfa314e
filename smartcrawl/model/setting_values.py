"""Types of settings: how the value of one is read, and the error where that fails.

``settings_table`` has a row for each setting, whose class is its type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import authority_file_option, whole_path
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import request_url
from smartcrawl.rules.absence import PASSING

#: The largest number that is taken where nothing says otherwise. Times a day, or added to the time
#: of today, it still fits into 64 bits; as seconds it is 3,170 years, as bytes 93 GiB.
MOST_NUMBER: Final = 100_000_000_000
MOST_DAYS: Final = 1_000_000  #: MOST_NUMBER in days, nearly
_DIGITS: Final = 4_000  #: Python refuses to read a few more


def given_number(text: str) -> int | None:
    """Return a whole number of digits alone, None for any other text; above the bound, one more.

    >>> given_number("007"), given_number("-7"), given_number("1e3"), given_number("")
    (7, None, None, None)
    >>> given_number("9" * 20) == given_number("9" * 9_999) == MOST_NUMBER + 1
    True
    """
    if not text.isdecimal():
        return None
    return min(int(text), MOST_NUMBER + 1) if len(text) <= _DIGITS else MOST_NUMBER + 1


def given_number_bounds(least: int, most: int = MOST_NUMBER, *, beyond: bool = False) -> str:
    """Return the bounds of a number in words; the upper one where it was exceeded or is its own.

    >>> given_number_bounds(1), given_number_bounds(1, beyond=True), given_number_bounds(0, 9)
    ('of at least 1', 'from 1 to 100000000000', 'from 0 to 9')
    """
    return (
        f"of at least {least}" if most == MOST_NUMBER and not beyond else f"from {least} to {most}"
    )


CMDLINE: Final = 40  #: priority of settings that are given with -s, as Scrapy counts
_LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_SWITCH: Final = ("1", "0", "True", "False", "true", "false")  #: as Scrapy reads a switch
_REST: Final = re.compile(r"[?#].*", re.DOTALL)  #: parts of an address that may have a key

_ORIGIN: Final = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:[0-9]{1,5})?")


def is_given_option(settings: Mapping[str, Any], name: str) -> bool:
    """Whether ``-s`` gave a setting, which makes it an order for this run alone."""
    priority = getattr(settings, "getpriority", None)
    return priority is not None and (priority(name) or 0) >= CMDLINE


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, with a text as its value. Its name is that of its environment variable, too."""

    name: str
    default: object
    unit: str  #: of a number; the choices, or what a text is
    meaning: str  #: a phrase of one line
    least: float = 0
    most: float = MOST_NUMBER
    form: str = ""  #: a pattern of the whole text
    takes: str = ""  #: in errors, in place of the words for the type
    is_secret: ClassVar[bool] = False
    written: ClassVar[tuple[type, ...]] = (str,)  #: types of its value in a TOML file
    takes_written: ClassVar[str] = "a text in quotes"  #: the same in words

    def typed(self, text: str) -> Any:
        """Return a right value of a command line as a TOML file has it."""
        return text

    def read(self, value: Any) -> Any:
        """Return the value as the program uses it.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        text = "" if value is None else str(value).strip()
        if self.form and (text or self.default) and not re.fullmatch(self.form, text):
            raise self.error(redacted_text(text[:200]))
        return text

    def error(self, value: object, takes: str = "") -> SettingError:
        """Return the error of a value."""
        return SettingError(f"{self.name} is {value!r}: expected {self.takes or takes}")

    @property
    def unit_and_bounds(self) -> str:
        """The unit, with the bounds of a number that has some of its own."""
        if self.most != MOST_NUMBER:
            return f"{self.unit}, {self.least:g} to {self.most:.12g}"
        return f"{self.unit}, at least {self.least:g}" if self.least else self.unit


class Secret(Setting):
    """A text that is shown nowhere, and stands in no file."""

    __slots__ = ()
    is_secret = True

    def read(self, value: Any) -> str:
        """Return the text as it was given."""
        return "" if value is None else str(value)


class Switch(Setting):
    """Yes or no."""

    __slots__ = ()
    written = (bool,)
    takes_written = "true or false, without quotes"

    def typed(self, text: str) -> bool:
        """Return a switch."""
        return self.read(text)

    def read(self, value: Any) -> bool:
        """Return whether it is on."""
        if str(value) not in _SWITCH:
            raise self.error(value, "1 or 0")
        return str(value).lower() in ("1", "true")


class Number(Setting):
    """A number from ``least`` to ``most``."""

    __slots__ = ()
    written = (int, float)
    takes_written = "a number without quotes"

    def typed(self, text: str) -> float:
        """Return a number, a whole one where it is written so."""
        number = given_number(text.strip())
        return self.read(text) if number is None else number

    def read(self, value: Any) -> float:
        """Return the number."""
        try:
            number = float(value)
        except OverflowError:
            number = float("inf")
        except (TypeError, ValueError):
            number = float("nan")
        if not self.least <= number <= self.most:
            has_bound = self.most != MOST_NUMBER or number > self.most
            bounds = f"from {self.least:g} to {self.most:.12g}"
            raise self.error(
                value, f"a number {bounds if has_bound else f'of at least {self.least:g}'}"
            )
        return number


class Whole(Setting):
    """A whole number from ``least`` to ``most``."""

    __slots__ = ()
    written = (int,)
    takes_written = "a whole number without quotes"

    def typed(self, text: str) -> int:
        """Return a whole number."""
        return self.read(text)

    def read(self, value: Any) -> int:
        """Return the number."""
        least, most = int(self.least), int(self.most)
        try:
            number = int(value) if isinstance(value, str | int) else least - 1
        except ValueError:
            number = (isinstance(value, str) and given_number(value.strip())) or least - 1
        if not least <= number <= most:
            if self.takes and number > most:
                raise self.error(value)
            bounds = given_number_bounds(least, most, beyond=number > most)
            raise SettingError(f"{self.name} is {value!r}: expected a whole number {bounds}")
        return number


class AutoWhole(Setting):
    """A whole number from ``least`` to ``most``, or ``auto``."""

    __slots__ = ()
    written = (int, str)
    takes_written = 'a whole number without quotes, or "auto"'

    def typed(self, text: str) -> int | str:
        """Return a whole number, or the word."""
        number = self.read(text)
        return "auto" if number is None else number

    def read(self, value: Any) -> int | None:
        """Return the number; None for ``auto``."""
        text = "" if isinstance(value, bool) else str(value).strip().lower()
        if text == "auto":
            return None
        number = given_number(text)
        if number is None or not self.least <= number <= self.most:
            bounds = given_number_bounds(int(self.least), int(self.most))
            raise self.error(value, f"auto, or a whole number {bounds}")
        return number

    @property
    def unit_and_bounds(self) -> str:
        """The unit, with the word and the bounds."""
        return f"{self.unit}, `auto` or {self.least:g} to {self.most:.12g}"


class Choice(Setting):
    """One of the words of ``unit``, or nothing where that is the default."""

    __slots__ = ()

    def read(self, value: Any) -> str:
        """Return the word in lower case."""
        word = "" if value is None else str(value).strip().lower()
        if word not in self.unit.split(", ") and (word or self.default):
            raise self.error(value, f"one of {self.unit}")
        return word

    @property
    def unit_and_bounds(self) -> str:
        """The choices, as the manual writes values."""
        return ", ".join(f"`{word}`" for word in self.unit.split(", "))


class Level(Setting):
    """The lowest level that is logged; Scrapy takes its number, too."""

    __slots__ = ()

    def read(self, value: Any) -> str | int:
        """Return the level."""
        if value not in _LEVELS and not (isinstance(value, int) and not isinstance(value, bool)):
            raise self.error(value, f"one of {', '.join(_LEVELS)}")
        return value  # type: ignore[no-any-return]  # one of both


class Words(Setting):
    """Words in a list, or in a text with commas; a whole number is a word, None stands for none."""

    __slots__ = ()
    written = (str, list)
    takes_written = 'a list, as in ["a", "b"], or a text in quotes'

    def read(self, value: Any) -> tuple[Any, ...]:
        """Return the words in lower case, without empty ones."""
        given = "" if value is None else value
        if isinstance(given, bool) or not isinstance(
            given, str | int | list | tuple | set | frozenset
        ):
            raise SettingError(
                f"{self.name} is {value!r}: expected a list, or a text with commas between the"
                " words"
            )
        parts = map(str, given) if not isinstance(given, str | int) else str(given).split(",")
        return tuple(part.strip().lower() for part in parts if part.strip())


class Ports(Words):
    """TCP ports."""

    __slots__ = ()

    def read(self, value: Any) -> tuple[int, ...]:
        """Return the ports."""
        words = super().read(value)
        ports = tuple(int(word) for word in words if word.isascii() and word.isdecimal())
        if len(ports) != len(words) or not all(0 < port < 65_536 for port in ports):
            raise self.error(value, "ports such as 8080,8443, from 1 to 65535")
        return ports


class Steps(Words):
    """Rising whole numbers."""

    __slots__ = ()

    def read(self, value: Any) -> tuple[int, ...]:
        """Return the numbers."""
        words = super().read(value)
        steps = tuple(step for word in words if (step := given_number(word)) is not None)
        rises = bool(steps) and len(steps) == len(words) and list(steps) == sorted(steps)
        if not rises or not 1 <= steps[0] <= steps[-1] <= MOST_NUMBER:
            raise self.error(value, "rising whole numbers such as 1, 3, 7, 14")
        return steps


class Networks(Words):
    """IP networks."""

    __slots__ = ()

    def read(self, value: Any) -> tuple[IPv4Network | IPv6Network, ...]:
        """Return the networks."""
        try:
            return tuple(ip_network(word) for word in super().read(value))
        except ValueError as error:
            raise SettingError(
                f"{self.name} is {value!r}: {error};"
                " expected networks such as 10.20.0.0/16, fd12:3456:789a::/48, separated by commas"
            ) from error


class Origins(Words):
    """Origins of web pages, as browsers send them."""

    __slots__ = ()

    def read(self, value: Any) -> tuple[str, ...]:
        """Return the origins."""
        words: tuple[str, ...] = super().read(value)
        if not all(_ORIGIN.fullmatch(word) for word in words):
            raise self.error(
                value,
                "origins such as https://www.example.com or http://localhost:3000,"
                " without a path, separated by commas",
            )
        return words


class Statuses(Words):
    """HTTP statuses from 400 to 499, or ``*`` for all that may count."""

    __slots__ = ()

    def read(self, value: Any) -> Any:
        """Return the set of statuses; None for ``*``."""
        words = super().read(value)
        if words == ("*",):
            return None
        try:
            statuses = frozenset(int(word) for word in words)
        except ValueError:
            statuses = frozenset({0})
        if not all(400 <= status <= 499 and status not in PASSING for status in statuses):
            raise self.error(
                value,
                "HTTP statuses from 400 to 499 such as 404,410, or *; 408, 425, 429 and 5xx say"
                " nothing about a page and never lead to its removal",
            )
        return statuses


class Address(Setting):
    """An IP address to listen at; a name could stand for another one tomorrow."""

    __slots__ = ()

    def read(self, value: Any) -> str:
        """Return the address."""
        text = str(value).strip()
        if text == "localhost":
            return "127.0.0.1"
        try:
            return str(ip_address(text.strip("[]")))
        except ValueError as error:
            raise self.error(value) from error


class Base(Setting):
    """The base of an API: an http or https address without credentials and query."""

    __slots__ = ()

    def read(self, value: Any) -> str:
        """Return the address without a slash at its end."""
        text = "" if value is None else str(value).strip()
        url = (request_url(text) or "").rstrip("/")
        is_base = url and re.fullmatch(self.form or ".*", url)
        if not is_base or "@" in urlsplit(text).netloc or "?" in text or "#" in text:
            raise self.error(redacted_text(_REST.sub("", text)))
        return url


class PathText(Setting):
    """A path, as it was given; in a file of settings a relative one starts beside the file."""

    __slots__ = ()

    def typed(self, text: str) -> str:
        """Return the path from the root: the command line starts in another folder."""
        return str(whole_path(text)) if text.strip() else ""


class Folder(PathText):
    """A folder that may be missing yet."""

    __slots__ = ()

    def read(self, value: Any) -> Path | None:
        """Return its path; None where the setting is empty."""
        text = super().read(value)
        return whole_path(text) if text else None


class Authorities(PathText):
    """A PEM file of certificate authorities."""

    __slots__ = ()

    def read(self, value: Any) -> Path | None:
        """Return its path; None where the setting is empty."""
        text = super().read(value)
        if not text:
            return None
        try:
            return authority_file_option(text)
        except ValueError as error:
            raise SettingError(f"{self.name} is {text!r}: {error}") from error


class Parser(Setting):
    """A class of Scrapy's RobotParser interface, or its path."""

    __slots__ = ()

    def read(self, value: Any) -> Any:
        """Return the value; the default is not imported, as most commands read no robots.txt."""
        if value != self.default:
            self.loaded(value)
        return value

    def loaded(self, value: Any) -> type[Any]:
        """Return the class.

        Raises:
            SettingError: there is no such class.
        """
        module, _, name = str(value).rpartition(".")
        found: Any = None
        with suppress(ImportError, AttributeError, ValueError):
            found = value if isinstance(value, type) else getattr(import_module(module), name)
        methods = ("from_crawler", "allowed", "crawl_delay")
        if not (isinstance(found, type) and all(hasattr(found, method) for method in methods)):
            raise self.error(value)
        return found

"""Proxies that connect to hosts in place of this machine, and the one that a source names."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from typing import Final, Self
from urllib.parse import unquote

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.secrets import VARIABLE, read_secret

_ADDRESS: Final = re.compile(
    r"(?i:http)://(?:([^\s/?#@]*)@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?/?"
)
_DEFAULT_PORT: Final = 80
_MOST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that is spoken to by http."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)  #: value of Proxy-Authorization

    @classmethod
    def of_address(cls, text: str) -> Self:
        """Return the proxy of an address; user and password are percent-encoded in it.

        >>> Proxy.of_address("http://crawler:p%40ss@proxy.example.com:3128").url
        'http://proxy.example.com:3128'

        Raises:
            ValueError: it is no such address; the text does not repeat it.
        """
        found = _ADDRESS.fullmatch(text)
        if found is None or not 0 < int(found[3] or _DEFAULT_PORT) <= _MOST_PORT:
            raise ValueError("no address of a proxy")
        given = None if found[1] is None else unquote(found[1]).encode()
        return cls(
            found[2].strip("[]").lower(),
            int(found[3] or _DEFAULT_PORT),
            None if given is None else f"Basic {base64.b64encode(given).decode()}",
        )

    @property
    def headers(self) -> dict[str, str]:
        """The headers that only the proxy gets."""
        found = self.authorization
        return {} if found is None else {"Proxy-Authorization": found}

    @property
    def url(self) -> str:
        """The address without user and password."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def proxy_of_source(name: str, given: str | None) -> Proxy | None:
    """Return the proxy that the table of a source gives; None: there is none.

    ``name``: of the source. ``given``: an address, or the name of a variable that has it.

    Raises:
        SettingError: the variable lacks the address; its value is not repeated.
    """
    if given is None or not VARIABLE.fullmatch(given):
        return None if given is None else Proxy.of_address(given)
    where = f"[sources.{name}] proxy cannot be had, as"
    try:
        secret = read_secret(given)
    except ValueError as error:
        raise SettingError(f"{where} {error}") from error
    try:
        return Proxy.of_address(secret.reveal())
    except ValueError:
        raise SettingError(
            f"{where} the environment variable {given} has no address such as"
            " http://USER:PASSWORD@proxy.example.com:3128: correct it, with each special"
            " character of user and password percent-encoded"
        ) from None

"""Address and credentials of an Elasticsearch, read from the settings once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import whole_path
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.settings_table import setting_value

_REST: Final = re.compile(r"[?#].*", re.DOTALL)  #: parts that no address has
#: Default ports by scheme.
_PORTS: Final[Mapping[str, int]] = {"http": 9200, "https": 443}


@dataclass(frozen=True, slots=True)
class ElasticsearchTarget:
    """One Elasticsearch, and smartcrawl's indices in it. Its ``repr`` contains no secret."""

    url: str  #: scheme, host, port and path, without credentials
    prefix: str = "smartcrawl"  #: name of the searched alias, and beginning of all index names
    api_key: str = field(default="", repr=False)  #: as Elasticsearch shows it: "encoded"
    user: str = ""
    password: str = field(default="", repr=False)
    ca_certs: Path | None = None  #: PEM file of authorities, trusted beside those of the system

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self | None:
        """Read the target from the settings; None where ``ELASTICSEARCH_URL`` is empty.

        Raises:
            SettingError: naming the setting and what it takes; secrets are not repeated.
        """
        prefix = setting_value(settings, "ELASTICSEARCH_INDEX_PREFIX")
        certificates = _certificates(setting_value(settings, "ELASTICSEARCH_CA_CERTS"))
        address = setting_value(settings, "ELASTICSEARCH_URL")
        if not address:
            return None
        parts, port = _parts(address)
        user, password, api_key = _credentials(settings, parts)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return cls(
            url=f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}",
            prefix=prefix,
            api_key=api_key,
            user=user,
            password=password,
            ca_certs=certificates,
        )


def _parts(address: str) -> tuple[SplitResult, int]:
    """Return the parts of the address, its scheme in lower case, and its port."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
        raise SettingError(
            f"ELASTICSEARCH_URL is {redacted_text(_REST.sub('', address))!r}: it takes an"
            " address such"
            " as https://search.example:9200, or https://USER:PASSWORD@search.example:9200"
        )
    return parts, _PORTS[parts.scheme] if port is None else port


def _credentials(settings: Mapping[str, Any], parts: SplitResult) -> tuple[str, str, str]:
    """Return user, password and API key; at most one of the last two is not empty."""
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    api_key = setting_value(settings, "ELASTICSEARCH_API_KEY").strip()
    for name, in_url in (("ELASTICSEARCH_USERNAME", user), ("ELASTICSEARCH_PASSWORD", password)):
        if in_url and setting_value(settings, name).strip() not in ("", in_url):
            raise SettingError(
                f"{name} is another one than in ELASTICSEARCH_URL: leave one of them out"
            )
    user = user or setting_value(settings, "ELASTICSEARCH_USERNAME")
    password = password or setting_value(settings, "ELASTICSEARCH_PASSWORD")
    if bool(user) != bool(password):
        raise SettingError(
            "ELASTICSEARCH_USERNAME and ELASTICSEARCH_PASSWORD belong together:"
            f" the {'user' if password else 'password'} is missing"
        )
    if user and api_key:
        raise SettingError(
            "ELASTICSEARCH_API_KEY is given beside a user and a password: leave one of them out"
        )
    return user, password, api_key


def _certificates(value: str) -> Path | None:
    if not value:
        return None
    path = whole_path(value)
    if not path.is_file():
        raise SettingError(
            f"ELASTICSEARCH_CA_CERTS is {value!r}: there is no such file; it takes the path of a"
            " PEM file with the certificate that signed the server's"
        )
    return path

"""The options of a server: its address, its certificates, and how to connect to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_line


def whole_path(text: str) -> Path:
    """Return a path from the root; ``~`` at its start stands for a home folder.

    Raises:
        SettingError: there is no such home folder, or the path is relative and the current folder
            was removed.
    """
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:
        raise SettingError(
            f"the path {redacted_line(text)!r} begins with a home folder that this system does"
            " not have: write the whole path"
        ) from error
    except FileNotFoundError as error:
        raise SettingError(
            "the current folder was removed: go to another one with cd, and try again"
        ) from error


def project_folder() -> Path | None:
    """Return the folder of scrapy.cfg: this one or the next above that has it."""
    here = whole_path(".")
    folders = (here, *here.parents)
    return next((folder for folder in folders if (folder / "scrapy.cfg").exists()), None)


def path_beside_project(value: str, default: str) -> Path:
    """Return a path; the default is beside scrapy.cfg, any other path is taken as given."""
    project = project_folder() if value == default else None
    return project / default if project else whole_path(value)


def authority_file_option(text: str, folder: Path | None = None) -> Path:
    """Return the path of a PEM file with at least one certificate.

    A relative path starts at ``folder``; None: at the current folder.

    Raises:
        ValueError: the file cannot be read or has no certificate; with the remedy.
    """
    import ssl  # noqa: PLC0415  # a tenth of the start of a command that reads no such file

    try:
        is_below = folder is not None and not text.startswith(("~", "/"))
        path = whole_path(f"{folder}/{text}" if is_below else text)
    except SettingError as error:
        raise ValueError(str(error)) from error
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    remedy = "name a PEM file with the certificates of the authorities to trust, or leave it empty"
    try:
        context.load_verify_locations(cafile=path)
    except FileNotFoundError as error:
        raise ValueError(f"there is no such file ({path}): {remedy}") from error
    except ssl.SSLError as error:
        raise ValueError(
            f"the file {path} contains no certificate in PEM form: {remedy}"
        ) from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"the file {path} cannot be read ({why}): {remedy}") from error
    if not context.cert_store_stats()["x509"]:  # revocation lists alone
        raise ValueError(f"the file {path} contains no certificate in PEM form: {remedy}")
    return path


KEY_VARIABLE: Final = "OPENAI_API_KEY"  #: of the environment
_OPENAI: Final = "api.openai.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIServerOptions:
    """A server that texts are sent to. There is no key: it is in the environment alone."""

    url: str  #: base of the API, without a slash at its end
    ca_file: Path | None  #: authorities that are trusted beside those of the system
    has_proxies: bool  #: whether the environment's proxies count

    @property
    def destination(self) -> str:
        """The host that texts are sent to, with its port where it is not the scheme's."""
        return urlsplit(self.url).netloc

    @property
    def needs_key(self) -> bool:
        """Whether the server is known to refuse requests without a key."""
        return urlsplit(self.url).hostname == _OPENAI

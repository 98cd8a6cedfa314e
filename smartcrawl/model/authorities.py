"""Files of certificate authorities, checked before the first request."""

from __future__ import annotations

from pathlib import Path

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.whole_path import whole_path


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

"""Secrets: files name them, variables or private files have them, and nothing shows them."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final, NoReturn

from smartcrawl.model.redaction import HIDDEN

#: Beginning of the name of a file that has a secret.
FILE: Final = "file:"
#: A name of an environment variable, as those of secrets are written.
VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]*")
MAX_SECRET: Final = 65_536  #: bytes
_OTHERS: Final = 0o077
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Secret:
    """A secret value, which shows itself as ``…`` and cannot be pickled.

    >>> secret = Secret("hunter2")
    >>> secret, f"{secret}", secret.reveal()
    (…, '…', 'hunter2')
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value, for the request that needs it."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not written anywhere")


def check_secret_name(text: str) -> str:
    """Return the name of a secret as it is; a text that may be the secret itself is not shown.

    Raises:
        ValueError: it is neither the name of a variable nor ``file:`` with a path.
    """
    if text.startswith(FILE) and len(text) > len(FILE):
        return text
    if not VARIABLE.fullmatch(text):
        raise ValueError(
            "takes no secret itself, but the name of the environment variable that has it,"
            ' in capitals as in "DOCS_PASSWORD", or a file that only you may read, as in'
            ' "file:/etc/smartcrawl/docs-password"'
        )
    return text


def check_file_name(text: str) -> str:
    """Return the name of a private file as it is; a text that may be the secret is not shown.

    Raises:
        ValueError: it is not ``file:`` with a path.
    """
    if not text.startswith(FILE) or len(text) == len(FILE) or "\n" in text:
        raise ValueError('takes a file, as in "file:/etc/smartcrawl/docs.pem"')
    return text


def secret_path(name: str, folder: Path | None) -> Path:
    """Return the path of a ``file:`` name; a relative one starts in ``folder``."""
    path = Path(name.removeprefix(FILE)).expanduser()
    return path if folder is None else folder / path


def read_secret(
    name: str, folder: Path | None = None, *, lines: bool = False, public: bool = False
) -> Secret:
    """Return the secret of a name, less the line break at its end.

    A relative path of a file starts in ``folder``. ``lines``: whether it may have several lines.
    ``public``: whether others may read its file, because it is no secret after all.

    Raises:
        ValueError: it is missing, empty, no text of one line, or others may read its file.
    """
    value = _of_file(name, folder, public) if name.startswith(FILE) else _of_variable(name)
    if not value.strip():
        raise ValueError(f"{_what(name)} is empty: put the secret into it")
    if not lines and _CONTROL.search(value):
        raise ValueError(f"{_what(name)} has a line break or a control character: remove it")
    return Secret(value)


def _what(name: str) -> str:
    if name.startswith(FILE):
        return f"the file {name.removeprefix(FILE)}"
    return f"the environment variable {name}"


def _of_variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ValueError(
            f"{_what(name)} is not set: set it where smartcrawl is started, as in"
            f" read -rs {name}; export {name}"
        )
    return value


def _of_file(name: str, folder: Path | None, public: bool) -> str:
    path = secret_path(name, folder)
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise ValueError(f"{_what(name)} is no regular file")
            if found.st_mode & _OTHERS and not public:
                raise ValueError(
                    f"others may read or write {path}; to change that, chmod 600 {path}"
                )
            data = file.read(MAX_SECRET + 1)
    except OSError as error:
        raise ValueError(f"{_what(name)} cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_SECRET:
        raise ValueError(f"{_what(name)} has more than {MAX_SECRET:,} bytes")
    try:
        return data.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ValueError(f"{_what(name)} is no UTF-8 text") from None

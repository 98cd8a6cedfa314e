"""Names of files as URLs, as paths, and as people read them.

A name is bytes. As text it is that of ``os.fsdecode``, which keeps bytes that are no UTF-8.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from smartcrawl.model.redaction import HIDDEN, escaped_text

_KEPT: Final = "!$&'()*+,;=:@"  #: characters of a segment that are not escaped (RFC 3986)
_LONGEST: Final = 1_000  #: characters of a path in a message
_IS_PLAIN: Final = re.compile(rf"[A-Za-z0-9\-._~{re.escape(_KEPT)}]*").fullmatch


def quoted_listing_name(name: str) -> str:
    r"""Return one name of a path as a segment of a URL.

    >>> [quoted_listing_name(name) for name in ("a b", "ü", "\udcff", "50%")]
    ['a%20b', '%C3%BC', '%FF', '50%25']
    """
    return name if _IS_PLAIN(name) else quote(os.fsencode(name), safe=_KEPT)


def listing_root_path(root: str | Path) -> str:
    """Return the absolute path of a root, without more slashes and dots.

    >>> listing_root_path("//srv/docs//./")
    '/srv/docs'
    """
    return "/" + os.path.abspath(root).lstrip("/")


def listing_folder_path(url: str) -> str:
    r"""Return the absolute path behind the URL of an entry of a folder, exactly.

    >>> listing_folder_path("file:///srv/docs/a%23b%FF.md")
    '/srv/docs/a#b\udcff.md'
    """
    return os.fsdecode(unquote_to_bytes(url.removeprefix("file://")))


def shown_listing_path(path: str) -> str:
    r"""Return a path for a message: on one line, bytes that are no UTF-8 as ``\xff``.

    Of more than 1,000 characters only both ends are shown.

    >>> print(shown_listing_path("/srv/ü/a\nb\udcff"))
    /srv/ü/a\nb\xff
    """
    text = escaped_text(os.fsencode(path).decode(errors="backslashreplace"))
    return (
        text
        if len(text) <= _LONGEST
        else f"{text[: _LONGEST // 2]}{HIDDEN}{text[-_LONGEST // 2 :]}"
    )

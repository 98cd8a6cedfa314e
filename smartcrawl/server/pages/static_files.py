"""Files of the pages that never change under their address: its name has their hash."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

STATIC: Final = "/static/"  #: where they are served
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_KEPT: Final = "public, max-age=31536000, immutable"
_FRESH: Final = "public, max-age=3600"  #: a new version of a server counts after an hour


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file, also compressed."""

    kind: str
    plain: bytes
    packed: bytes

    def response(self, request: Request) -> Response:
        """Return it as the client takes it."""
        return self._sent(request, {"Cache-Control": _KEPT})

    def shared_response(self, request: Request) -> Response:
        """Return it under an address that stays, for pages of other sites."""
        headers = {"Cache-Control": _FRESH, "Cross-Origin-Resource-Policy": "cross-origin"}
        return self._sent(request, headers)

    def _sent(self, request: Request, headers: dict[str, str]) -> Response:
        headers["Vary"] = "Accept-Encoding"
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(self.packed, headers=headers, media_type=self.kind)
        return Response(self.plain, headers=headers, media_type=self.kind)


@cache
def page_static_files() -> dict[str, StaticFile]:
    """Return the files by their names with hashes; they are read once."""
    return {name: _loaded(plain) for plain, name in _names().items()}


def page_static_file(name: str) -> StaticFile:
    """Return a file by its plain name."""
    return page_static_files()[_names()[name]]


def page_static_path(name: str) -> str:
    """Return the path of a file, as in ``/static/pages-0123456789ab.css`` of ``pages.css``."""
    return STATIC + _names()[name]


@cache
def _names() -> dict[str, str]:
    """Return the names with hashes by the plain ones."""
    found = {}
    for entry in files("smartcrawl.server.pages").joinpath("static").iterdir():
        stem, dot, end = entry.name.rpartition(".")
        if end in _TYPES:
            found[entry.name] = f"{stem}-{sha256(entry.read_bytes()).hexdigest()[:12]}{dot}{end}"
    return found


def _loaded(name: str) -> StaticFile:
    plain = files("smartcrawl.server.pages").joinpath("static", name).read_bytes()
    kind = _TYPES[name.rpartition(".")[2]]
    return StaticFile(kind, plain, gzip.compress(plain, 9, mtime=0))

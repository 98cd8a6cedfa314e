"""Names of exported files, and of the sections that list them, made from addresses."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from hashlib import sha256
from typing import Final
from urllib.parse import unquote

_LONGEST: Final = 200  #: bytes of a name; file systems take 255
_DIGEST: Final = 12  #: hexadecimal digits that keep names apart
_LONG_DIGEST: Final = 32  #: so many that no search finds two equal ones
_PLAIN: Final = re.compile(r"[a-z0-9._-]+")
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[\d¹²³])(?:\.|$)")  #: of Windows
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*://+", re.IGNORECASE)

REST: Final = "Pages"  #: the section of pages that are in no folder


def exported_file_name(url: str, ending: str = ".md", *, told_apart: bool = False) -> str:
    """Return a name for the file of a page: readable, in lower case, without separators.

    A name that lost something of the address has digits of its hash, so that no other address gets
    it; ``told_apart``: more of them in any case, because another page has the shorter name.

    >>> exported_file_name("https://docs.example.com/guide/install.html")
    'docs.example.com_guide_install.html.md'
    >>> exported_file_name("https://example.com/../A?b=1")
    'example.com_._a-b-1-23634b70808c.md'
    """
    address = _SCHEME.sub("", url).rstrip("/")
    readable = unicodedata.normalize("NFC", unquote(address, errors="replace").casefold())
    joined = "_".join(part for part in readable.split("/") if part)
    stem = re.sub(r"\.{2,}", ".", re.sub(r"[^\w.]+", "-", joined)).strip("-.") or "page"
    if _DEVICE.match(stem):
        stem = f"_{stem}"
    is_whole = stem == address.replace("/", "_") and _PLAIN.fullmatch(stem) is not None
    size = len(ending.encode())
    if is_whole and not told_apart and len(stem) + size <= _LONGEST:
        return stem + ending
    digits = _LONG_DIGEST if told_apart else _DIGEST
    digest = sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    room = _LONGEST - size - digits - 1
    return f"{stem.encode()[:room].decode(errors='ignore')}-{digest}{ending}"


def export_folder_of_addresses(urls: Iterable[str]) -> str:
    """Return the folder that all addresses are in, without scheme, with ``/`` at its end.

    >>> export_folder_of_addresses(["https://a.example/3/x", "http://a.example/3/lib/y"])
    'a.example/3/'
    """
    common: str | None = None
    for url in urls:
        folder = _place(url).rpartition("/")[0] + "/"
        if common is None:
            common = folder
        while not folder.startswith(common):
            common = common[: common.rfind("/", 0, -1) + 1]
    return common or ""


def address_section(url: str, common: str) -> str:
    """Return the section of a page: the first folder below ``common``, else ``REST``.

    >>> address_section("https://a.example/3/lib/y", "a.example/3/")
    'lib'
    >>> address_section("https://a.example/3/x?a=/b", "a.example/3/")
    'Pages'
    """
    folder, slash, _ = _place(url)[len(common) :].partition("/")
    return unquote(folder) if slash and folder else REST


def _place(url: str) -> str:
    return re.split("[?#]", _SCHEME.sub("", url), maxsplit=1)[0]

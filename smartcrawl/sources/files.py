"""Files of a folder or a bucket as sources."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationInfo

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.file_urls import path_of_file_url, url_of_folder
from smartcrawl.model.urls import display_url
from smartcrawl.sources.base import Source, ad_hoc_source_name
from smartcrawl.sources.drivers import file_store_place
from smartcrawl.sources.fields import LIST, Limit
from smartcrawl.sources.listing.entries import ListingRules, listing_folder_path
from smartcrawl.sources.scope import FixedScope

STORE_SCHEMES: Final = (
    "s3", "gs", "az", "abfs", "abfss", "wasb", "wasbs", "https", "sftp", "smb",
)  # fmt: skip
_FOLDER: Final = "file://"
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def declared_root(text: str, folder: Path | None = None) -> str:
    """Return the URL of a folder as the operator wrote it, without a slash at its end.

    A relative path begins in ``folder``, or in the working directory.

    Raises:
        ValueError: it is empty, names no place in a store, or contains credentials.
    """
    if not text.strip():
        raise ValueError("is empty: give the path of a folder, as in /srv/docs")
    if text.startswith(_FOLDER):
        known = path_of_file_url(text)
        if known is None:
            raise ValueError(f"is {text!r}, no folder of this machine: give the path of its mount")
        text = os.fsdecode(known)
    elif "://" in text:
        return _store_root(text)
    path = os.path.join(folder or "", os.path.expanduser(text))
    return url_of_folder(os.path.abspath(path)).rstrip("/") or _FOLDER


def _store_root(text: str) -> str:
    scheme = text.partition("://")[0].lower()
    if scheme not in STORE_SCHEMES:
        known = ", ".join(f"{scheme}://" for scheme in STORE_SCHEMES)
        raise ValueError(f"is of the kind {scheme}://: expected a folder's path, or {known}")
    try:
        place = file_store_place(text)
    except SettingError as error:
        raise ValueError(str(error).removeprefix("root ")) from error
    return place.url_of(place.key).removesuffix("/")


def _root(text: object, info: ValidationInfo) -> object:
    folder: Path | None = info.context["folder"] if info.context else None
    return declared_root(text, folder) if isinstance(text, str) else text


def _globs(globs: tuple[str, ...]) -> tuple[str, ...]:
    ListingRules(include=globs)
    return globs


Root = Annotated[str, BeforeValidator(_root)]
Globs = Annotated[tuple[str, ...], AfterValidator(_globs), LIST]


@dataclass(frozen=True, slots=True)
class FilesScope(FixedScope):
    """The files below a root that the globs of the operator permit."""

    root: str  #: URL without a slash at its end
    rules: ListingRules

    @property
    def hosts(self) -> frozenset[str]:
        """No host: files are on this machine."""
        return frozenset()

    def holds(self, url: str) -> bool:
        """Whether a URL is below the root; the file itself may be refused."""
        return url.startswith(f"{self.root}/")

    def refusal(self, url: str) -> str | None:
        """Return the reason why a file does not belong to the source, or None if it does."""
        if not self.holds(url):
            return f"it is not below {display_url(self.root)}"
        return self.rules.refusal(self.relative(url))

    def relative(self, url: str) -> str:
        """Return the path of a file below the root, as ``os.fsdecode`` gives it."""
        return listing_folder_path(url[len(self.root) + 1 :])

    def fingerprint(self) -> bytes:
        """Return a 16-byte digest of the settings that ``allows`` depends on (M-15)."""
        parts = [self.root, self.rules.fingerprint_parts()]
        return sha256(json.dumps(parts).encode()).digest()[:16]


class FilesSource(Source):
    """A folder or a bucket: the files that a listing of it names.

    Source: R1-28, R1-29.
    """

    UNDECLARED: ClassVar[frozenset[str]] = Source.UNDECLARED | {
        "seeds", "sitemaps", "max_depth", "verify_certificates", "ca_file",
    }  # fmt: skip

    kind: Literal["files"] = "files"
    root: Root  #: URL without a slash at its end
    include: Globs = ()  #: at least one must match; empty: no condition
    exclude: Globs = ()  #: none may match
    hidden: bool = False  #: whether names that begin with a dot belong, too
    follow_symlinks: bool = False  #: whether links that stay below the root are followed
    max_file_size: Limit = 0  #: bytes; larger files are not read; 0: MAX_FILE_SIZE

    @property
    def scope(self) -> FilesScope:
        """The files below the root that the globs permit."""
        return FilesScope(
            self.root,
            ListingRules(self.include, self.exclude, self.hidden, self.follow_symlinks),
        )

    @property
    def starts(self) -> tuple[str, ...]:
        """The root."""
        return (self.root,)

    @property
    def ad_hoc_root(self) -> str | None:
        """The root, which nothing else remembers unless the source is declared."""
        return self.root if self.ad_hoc else None

    @property
    def keeps_snapshots(self) -> bool:
        """Whether bodies are stored: not those of a folder, which is read again as fast."""
        return not self.is_local

    @property
    def is_local(self) -> bool:
        """Whether the root is a folder of this machine, or mounted on it."""
        return self.root.startswith(_FOLDER)

    @property
    def folder(self) -> str:
        """The absolute path of a local root."""
        return listing_folder_path(self.root) or "/"


def folder_source_name(url: str) -> str:
    """Return the name of a folder (its URL) as a source has it while no other has that name.

    >>> folder_source_name("file:///srv/my docs"), folder_source_name("file://")
    ('my-docs', 'files')
    """
    return _NO_NAME.sub("-", url.rpartition("/")[2]).strip("-.") or "files"


def ad_hoc_files_source(root: str) -> FilesSource:
    """Return the source of all files below ``root``, with a name that depends on the root alone.

    The name of its folder may be enough (``run.site_starts``).

    Raises:
        ValueError: it is no folder's path.
    """
    url = declared_root(root)
    return FilesSource(name=ad_hoc_source_name(folder_source_name(url), url), root=url, ad_hoc=True)

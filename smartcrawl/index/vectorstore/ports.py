"""The pages that a store is to have, the files that it has, and the figures of a push."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple, Protocol
from unicodedata import category

_LONGEST: Final = 512  #: characters of an attribute's value
_INTENT_BYTES: Final = 8
_LONGEST_NAME: Final = 100  #: characters
_MOST_BYTES: Final = 200  #: of a name in UTF-8; with id and ending, file systems take 255
_NOT_IN_NAMES: Final = frozenset('/\\"')
_BIDI: Final = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
DOMAIN: Final = "smartcrawl_domain"
SOURCE: Final = "smartcrawl_source"
URL: Final = "smartcrawl_url"
ITEM: Final = "smartcrawl_item"
HASH: Final = "smartcrawl_hash"


class ItemVersion(NamedTuple):
    """A page or item that the store is to have, in the version that it is to have."""

    no: int  #: record.no
    url: str  #: of a page; the unique id of a library's item
    hash: bytes  #: of the content
    facts: bytes = b""  #: digest of what else makes a version, such as the name of an item


class StoreItem(NamedTuple):
    """A page or an item as a file."""

    version: ItemVersion
    name: str  #: of the file, without an ending
    body: bytes | BinaryIO  #: a file is sent from its beginning, in parts
    size: int  #: bytes
    digest: bytes  #: SHA-256 of the body
    ending: str = ".md"
    media_type: str = "text/markdown"


class StoreItems(Protocol):
    """The pages or items of one source that a store is to have."""

    @property
    def source_no(self) -> int:
        """The number of the source."""

    @property
    def marks(self) -> Mapping[str, str]:
        """The attributes by which files of this source are known; empty: a file has it not."""

    @property
    def key(self) -> str:
        """The name of the attribute that has ``ItemVersion.url``."""

    @property
    def knows_all(self) -> bool:
        """Whether a file of an unknown page is one of a page that is gone."""

    @property
    def keeps_former(self) -> bool:
        """Whether a former version stays while the store cannot embed the new one."""

    @property
    def checks_account(self) -> bool:
        """Whether files are given anew that the account has no more, and the store still lists."""

    @property
    def place_of_store(self) -> str:
        """Settings that name the store, for messages."""

    def versions(self) -> Iterator[ItemVersion]:
        """Yield each page."""

    def kept(self) -> Mapping[int, bytes | None]:
        """Return others whose files stay, after versions; with a hash only those of it."""

    def items(self, numbers: Sequence[int]) -> Iterator[StoreItem]:
        """Yield those of some pages that still are to be in the store, in their version of now."""

    def note_refused(self, version: ItemVersion, why: str) -> None:
        """Record that the store cannot have a version, before its file is removed."""


class FileStatus(StrEnum):
    """The last step of a file that is known to be done; the words are stored."""

    INTENDED = "intended"  #: the upload may have been made
    UPLOADED = "uploaded"  #: the id of the file is known
    ATTACHED = "attached"  #: the store embeds it
    COMPLETED = "completed"  #: searches in the store find it
    LEAVING = "leaving"  #: it is to be detached


class StoredFile(NamedTuple):
    """A file of ours, by the registry."""

    intent: str  #: unique id of its upload
    version: ItemVersion
    name: str
    size: int | None  #: bytes; None: it was found in the store
    file: str | None  #: id that the server gave; None: not known
    status: FileStatus
    intended_at: int  #: Unix seconds
    uploaded_at: int | None = None  #: Unix seconds, by the server's clock
    embedded_at: int | None = None  #: Unix seconds at which it was attached, by that clock

    @classmethod
    def adopted(
        cls, found: ListedFile, version: ItemVersion, status: FileStatus, now: int
    ) -> StoredFile:
        """Return a file of ours in the store that no row has; ``now``: Unix seconds."""
        at = found.created_at
        return cls(vector_store_upload_id(), version, "", None, found.id, status, now, None, at)

    def uploaded(self, found: UploadedFile) -> StoredFile:
        """Return it with the id that the server gave to it."""
        at = found.created_at
        return self._replace(file=found.id, status=FileStatus.UPLOADED, uploaded_at=at)

    @property
    def is_our_upload(self) -> bool:
        """Whether this registry knows its upload: it was not found in the store."""
        return self.size is not None

    def listed(self, status: FileStatus, found: ListedFile) -> StoredFile:
        """Return it with its status, and since when it is attached."""
        return self._replace(status=status, embedded_at=found.created_at)


def vector_store_upload_id() -> str:
    """Return the unique id of an upload."""
    return secrets.token_hex(_INTENT_BYTES)


class ListedFile(NamedTuple):
    """A file of a vector store, by the server."""

    id: str
    status: str  #: in_progress, completed, failed or cancelled
    error: str  #: why it failed
    attributes: Mapping[str, str]  #: that a push gave it, of those that it knows
    created_at: int  #: Unix seconds at which it was attached, by the server's clock

    def has(self, marks: Mapping[str, str]) -> bool:
        """Whether it is one of ours with these attributes; an empty one must be missing."""
        return all(self.attributes.get(name, "") == value for name, value in marks.items())


class ListedStore(NamedTuple):
    """A vector store of the account, by the server."""

    id: str
    intent: str  #: for which ``create_store`` made it; empty: another program did


class UploadedFile(NamedTuple):
    """A file of the account, by the server, attached or not."""

    id: str
    name: str
    size: int  #: bytes
    created_at: int  #: Unix seconds, by the server's clock


@dataclass(slots=True)
class Pushed:
    """The figures of a push."""

    pages: int = 0  #: that the store is to have
    unchanged: int = 0  #: pages that it had
    uploaded: int = 0  #: files that were given to it
    attached: int = 0  #: files that this push attached to it
    completed: int = 0  #: files of this push that it has embedded
    adopted: int = 0  #: files of an earlier push that the registry did not know
    detached: int = 0  #: files that were removed from it
    left: int = 0  #: uploads of this registry that it has no more, and the account still has
    failed: list[tuple[str, str]] = field(default_factory=list)  #: address of a page, and why
    in_progress: list[str] = field(default_factory=list)  #: addresses
    error: str | None = None  #: why the push ended early
    is_dry: bool = False  #: whether these are the figures of a push that was not made

    @property
    def is_whole(self) -> bool:
        """Whether the store has every page, and no other of the source."""
        return self.error is None and not self.failed and not self.in_progress


def vector_store_file_stem(name: str) -> str:
    """Return a name for an upload, without its unique id and ending.

    Letters, signs and pictures of every script stay; what a header or a path cannot have does not.

    >>> vector_store_file_stem("grün 🚀 שלום")
    'grün 🚀 שלום'
    >>> vector_store_file_stem('a/b "c"')
    'a_b _c_'
    """
    plain = "".join("_" if each in _NOT_IN_NAMES or _is_control(each) else each for each in name)
    cut = plain[:_LONGEST_NAME].encode()[:_MOST_BYTES].decode("utf-8", "ignore")
    return cut.strip(" -.")


def _is_control(sign: str) -> bool:
    """Whether a character is no text: a control, half of a pair, a line break, a turn of bidi."""
    return category(sign) in ("Cc", "Cs", "Zl", "Zp") or sign in _BIDI


def vector_store_attribute(url: str) -> str:
    """Return the attribute for an address: itself, or its beginning and its digest.

    >>> vector_store_attribute("https://a.example/")
    'https://a.example/'
    >>> len(vector_store_attribute("https://a.example/" + "x" * 999))
    512
    """
    if len(url) <= _LONGEST:
        return url
    digest = sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{url[: _LONGEST - len(digest) - 1]}~{digest}"


@dataclass(slots=True)
class PushPlan:
    """The work of a push."""

    unchanged: int = 0  #: pages whose version is completed
    leaving: list[StoredFile] = field(default_factory=list)  #: to detach at once
    under_way: list[StoredFile] = field(default_factory=list)  #: to attach, or to wait for
    missing: list[int] = field(default_factory=list)  #: record.no of pages to upload, rising
    #: By record.no, files of former versions that stay until the new one is completed.
    former: dict[int, list[StoredFile]] = field(default_factory=dict)


def vector_store_plan(
    versions: Mapping[int, ItemVersion],
    files: Iterable[StoredFile],
    kept: Mapping[int, bytes | None] = MappingProxyType({}),
    *,
    is_full: bool = False,
    lost: Set[str] = frozenset(),
) -> PushPlan:
    """Return the work that makes a store equal to the pages ``versions`` (by record.no).

    A page keeps the first of its files that is furthest. The file of a former version stays only
    while it is completed, and no file of the present one is. Files without an id are left out.
    ``kept``: others whose files stay; with a hash only completed ones of it. ``is_full``:
    each completed file counts as one of a former version. ``lost``: those that do in any case.
    """
    plan = PushPlan()
    by_page: dict[int, tuple[StoredFile, ...]] = {}  # lists would take twice the memory
    for file in files:
        if file.file is None:
            continue
        is_kept = file.version.no in kept and _stays(file, kept[file.version.no])
        if file.status is FileStatus.LEAVING or not (is_kept or file.version.no in versions):
            plan.leaving.append(file)
        elif is_kept:
            continue
        else:
            by_page[file.version.no] = (*by_page.get(file.version.no, ()), file)
    for no, version in sorted(versions.items()):
        found: Sequence[StoredFile] = by_page.get(no, ())
        if is_full or not lost.isdisjoint(file.file for file in found):
            former = [
                file
                for file in found
                if file.status is FileStatus.COMPLETED and (is_full or file.file in lost)
            ]
            plan.former[no] = former
            found = [file for file in found if file not in former]
        _plan_page(plan, version, found)
    return plan


def _stays(file: StoredFile, digest: bytes | None) -> bool:
    is_same = file.version.hash == digest and file.status is FileStatus.COMPLETED
    return digest is None or is_same


def _plan_page(plan: PushPlan, version: ItemVersion, files: Sequence[StoredFile]) -> None:
    present = [file for file in files if file.version == version]
    kept = max(present, key=_progress, default=None)  # the first of equal ones
    is_done = kept is not None and kept.status is FileStatus.COMPLETED
    if is_done:
        plan.unchanged += 1
    elif kept is not None:
        plan.under_way.append(kept)
    else:
        plan.missing.append(version.no)
    for file in files:
        if file is kept:
            continue
        is_former = file.version != version and file.status is FileStatus.COMPLETED
        if is_former and not is_done:
            plan.former.setdefault(version.no, []).append(file)
        else:
            plan.leaving.append(file)


def _progress(file: StoredFile) -> int:
    return (FileStatus.UPLOADED, FileStatus.ATTACHED, FileStatus.COMPLETED).index(file.status)

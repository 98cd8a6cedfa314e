"""The answers of GitHub's API, parsed strictly: commits and trees."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Sha = Annotated[str, Field(pattern=r"^(?:[0-9a-f]{40}|[0-9a-f]{64})$")]
#: Modes of a file.
_FILES: Final = frozenset({"100644", "100755", "100664"})
_TREE: Final = "040000"
_OF_REPOSITORY: Final = re.compile(
    r"/repos/((?!\.{1,2}/)[A-Za-z0-9_-]+/(?!\.{1,2}/)[A-Za-z0-9._-]+)/commits/"
).search
_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys((*_FILES, "120000"), "blob"), "160000": "commit", _TREE: "tree",
}  # fmt: skip


class PayloadError(ValueError):
    """An answer of the API does not have the documented form."""


class _Payload(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class _Tree(_Payload):
    sha: Sha


class _CommitOfGit(_Payload):
    tree: _Tree


_Model = TypeVar("_Model", bound=_Payload)


class CommitPayload(_Payload):
    """The answer to ``GET /repos/OWNER/REPO/commits/REF``."""

    sha: Sha
    url: str
    commit: _CommitOfGit

    @property
    def repository(self) -> str | None:
        """``OWNER/REPO`` of its URL, which after a renaming is the new one."""
        found = _OF_REPOSITORY(self.url)
        return None if found is None else found[1]

    @property
    def tree(self) -> str:
        """The SHA of the commit's tree."""
        return self.commit.tree.sha


class TreeItem(_Payload):
    """One item of a tree: a file, a folder, a symlink or a submodule."""

    path: str  #: below the tree that was asked for; not checked, it may have .. and NUL in it
    mode: str
    type: Literal["blob", "tree", "commit"]
    sha: Sha
    size: Annotated[int, Field(ge=0)] | None = None  #: bytes; blobs have it

    @model_validator(mode="after")
    def _is_sound(self) -> Self:
        if _TYPES.get(self.mode) != self.type:
            raise ValueError(f"mode {self.mode!r} is not one of a {self.type}")
        if self.is_file and self.size is None:
            raise ValueError("a file has no size")
        return self

    @property
    def is_file(self) -> bool:
        """Whether it is a file with content of its own."""
        return self.mode in _FILES

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return self.mode == _TREE


class TreePayload(_Payload):
    """The answer to ``GET /repos/OWNER/REPO/git/trees/SHA``."""

    sha: Sha
    tree: list[TreeItem]
    truncated: bool


def github_commit_of_answer(body: bytes) -> CommitPayload:
    """Parse the answer about a commit.

    Raises:
        PayloadError: it does not have the documented form.
    """
    return _parsed(CommitPayload, body)


def github_tree_of_answer(body: bytes) -> TreePayload:
    """Parse the answer about a tree.

    Raises:
        PayloadError: it does not have the documented form.
    """
    return _parsed(TreePayload, body)


def _parsed(model: type[_Model], body: bytes) -> _Model:
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise PayloadError(
            f"the API's answer is not as documented ({where}: {first['msg']})"
        ) from error

"""The files that a push to a repository changed, by the addresses of their pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from smartcrawl.sources.github.source import (
    DEFAULT_REF,
    RepositoryAddress,
    is_repository_path,
    quoted_repository_path,
)

MOST_FILES: Final = 10_000  #: of a push; of a larger one the whole source is due
#: Commits that GitHub names in an event; of a larger push the files are not known.
_MOST_COMMITS: Final = 2_048
_BRANCH: Final = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Push:
    """A push to one branch."""

    repository: str  #: ``OWNER/REPO``
    branch: str  #: empty: it was to a tag
    default_branch: str
    files: tuple[str, ...] | None  #: added, modified or removed; None: they are not all named


def read_push(payload: Any) -> Push:
    """Return the push of an event of GitHub, or of a server that sends events like it.

    Raises:
        ValueError: it is none; with the reason.
    """
    try:
        repository = payload["repository"]
        name, default = repository["full_name"], repository["default_branch"]
        ref, commits = payload["ref"], payload.get("commits") or []
        files = {
            path
            for commit in commits
            for change in ("added", "modified", "removed")
            for path in commit.get(change) or ()
        }
        texts = {name, default, ref, *files}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the body is no push event of GitHub") from error
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("the body is no push event of GitHub")
    is_whole = not commits or bool(payload.get("forced")) or len(commits) >= _MOST_COMMITS
    known = None if is_whole or len(files) > MOST_FILES else tuple(sorted(files))
    branch = ref.removeprefix(_BRANCH) if ref.startswith(_BRANCH) else ""
    return Push(name, branch, default, known)


def pushed_page_urls(address: RepositoryAddress, push: Push) -> list[str] | None:
    """Return the addresses of the pages that a push changed; None: all may have changed.

    A push to another repository or branch, or outside of the folder of the source, changes none.

    >>> from smartcrawl.sources.github.source import repository_address
    >>> push = Push("Octo/docs", "main", "main", ("docs/a b.md", "src/x.py"))
    >>> pushed_page_urls(repository_address("https://github.com/octo/docs/tree/main/docs"), push)
    ['https://github.com/octo/docs/blob/main/docs/a%20b.md']
    >>> pushed_page_urls(repository_address("https://github.com/octo/other"), push)
    []
    """
    is_here = push.repository.lower() == address.repository.lower()
    place, ref = f"{address.place or DEFAULT_REF}/", DEFAULT_REF
    is_followed = push.branch == push.default_branch
    if not place.startswith(f"{DEFAULT_REF}/"):
        ref = push.branch
        is_followed = bool(ref) and place.startswith(f"{ref}/")
    if not (is_here and is_followed):
        return []
    if push.files is None:
        return None
    folder = place[len(ref) + 1 :]
    return [
        f"{address.front}/blob/{quoted_repository_path(f'{ref}/{path}')}"
        for path in push.files
        if is_repository_path(path) and f"{path}/".startswith(folder)
    ]

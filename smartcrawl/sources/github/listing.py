"""The listing of a repository: the tree of one commit."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple, Self
from urllib.parse import quote

from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.github.api import VARIABLE, ApiAnswer, ApiError, GithubApi
from smartcrawl.sources.github.content import github_listing_entries, path_below_github_folder
from smartcrawl.sources.github.payloads import (
    PayloadError,
    TreeItem,
    TreePayload,
    github_commit_of_answer,
    github_tree_of_answer,
)
from smartcrawl.sources.github.source import RepositoryAddress
from smartcrawl.sources.listing.entries import Entry, ListingRules, Skip, source_entries_in_batches

_LARGEST_COMMIT: Final = 16 * 1024 * 1024  #: bytes of an answer
_LARGEST_TREE: Final = 64 * 1024 * 1024
_REMEDIES: Final = {
    401: f"the API refuses the token in {VARIABLE}; renew it, or unset it for a public repository",
    403: f"the API refuses it: give {VARIABLE} a token that may read its contents",
    404: f"it is gone or private: check the address, or set {VARIABLE} to a token that may read it",
}


class ListedCommit(NamedTuple):
    """The commit of a listing: the facts that the next run compares."""

    repository: str  #: OWNER/REPO, after a renaming the new one
    ref: str
    folder: str  #: path below the repository's root; empty: all of it
    sha: str
    etag: str | None  #: of the API's answer about the commit

    def dumps(self) -> str:
        """Return the facts as JSON."""
        return json.dumps(self._asdict())

    @classmethod
    def loads(cls, text: str) -> Self:
        """Return the facts of ``dumps``."""
        return cls(**json.loads(text))


class RepositoryListing:
    """One pass over the tree of the commit that a ref names now.

    If that is the commit of the last run, ``is_unchanged`` is set and no entry comes: the caller
    confirms the entries of that run.

    Source: R0-43, R0-44, R1-31.
    """

    def __init__(
        self,
        address: RepositoryAddress,
        *,
        api: GithubApi,
        rules: ListingRules,
        known: ListedCommit | None = None,
    ) -> None:
        """Set up the pass; ``known``: the commit whose entries are all stored, if there is one."""
        self.problems: list[str] = []
        self.skipped: Counter[str] = Counter()
        self.notes: list[str] = []  #: for the log, such as a renaming
        self.commit: ListedCommit | None = None  #: set before the first entry comes
        self.is_unchanged = False
        self._address = address
        self._api = api
        self._rules = rules
        self._known = known

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the files of the tree, up to 1,000 at a time. Call it once."""
        return source_entries_in_batches(self._entries())

    def _entries(self) -> Iterator[Entry]:
        lacking: ListedCommit | None = None  # the first without a file at its folder
        try:
            for tree in self._trees():
                found = False
                for item in self._items(tree):
                    found = True
                    if isinstance(item, Skip):
                        self.skipped[item] += 1
                    else:
                        yield item
                assert self.commit is not None
                if found or not self.commit.folder:
                    return
                lacking = lacking or self.commit
        except (ApiError, PayloadError) as error:
            self._problem(str(error))
        if lacking is not None:
            why = f"commit {lacking.sha[:12]} has no file at {lacking.folder}: correct the address"
            self._problem(why)

    def _problem(self, why: str) -> None:
        self.problems.append(redacted_line(f"{self._address.url} ({why})"))

    # The commit

    def _trees(self) -> Iterator[str]:
        """Yield the SHA of the tree of each commit that the address may mean, shortest ref first.

        A tag ``a`` and a branch ``a/b`` exist side by side. Nothing comes where nothing is to be
        listed: the commit is known, or the repository is empty.

        Raises:
            ApiError: it cannot be found out.
            PayloadError: the API's answer is not as documented.
        """
        known = self._known
        splits, named = list(self._address.splits()), False
        if known is not None and (known.ref, known.folder) in splits:
            splits.remove((known.ref, known.folder))
            splits.insert(0, (known.ref, known.folder))
        for ref, folder in splits:
            etag = known.etag if known is not None and known.ref == ref else None
            path = f"/repos/{self._address.repository}/commits/{quote(ref, safe='/')}?per_page=1"
            answer = self._api.get(path, most=_LARGEST_COMMIT, etag=etag)
            if answer.status == 304 and known is not None:
                self._confirmed(known)
                return
            if answer.status == 409:
                self.notes.append(
                    f"{self._address.repository} has no commit yet: push one, and crawl again"
                )
                return
            if answer.status != 422:
                named = True
                tree = self._take(answer, ref, folder)
                if tree is None:
                    return
                yield tree
        if named:
            return
        tried = " or ".join(ref for ref, _ in splits)
        raise ApiError(f"it has no branch, tag or commit {tried}: correct the address")

    def _take(self, answer: ApiAnswer, ref: str, folder: str) -> str | None:
        commit = github_commit_of_answer(_usable(answer))
        repository = commit.repository or self._address.repository
        if repository.lower() != self._address.repository.lower():
            self.notes.append(
                f"{self._address.repository} was renamed to {repository}. The old address "
                "still works; the pages keep their addresses until you change that of "
                "the source"
            )
        listed = ListedCommit(repository, ref, folder, commit.sha, answer.headers.get("etag"))
        known = self._known
        if known is not None and known[:4] == listed[:4]:
            self._confirmed(listed)
            return None
        self.commit = listed
        return commit.tree

    def _confirmed(self, commit: ListedCommit) -> None:
        self.commit = commit
        self.is_unchanged = True

    # The tree

    def _items(self, tree: str) -> Iterator[Entry | Skip]:
        """Yield the files of a tree; where it is too large for one answer, folder by folder."""
        assert self.commit is not None
        folder = self.commit.folder
        pending = [(tree, "")]
        while pending:
            sha, prefix = pending.pop()
            whole = self._tree(sha, recursive=True)
            items = whole.tree
            if whole.truncated:
                level = self._tree(sha, recursive=False)
                if level.truncated:
                    raise ApiError(
                        f"the folder /{prefix} has more items than the API lists: leave it out by"
                        " an address of other folders"
                    )
                items = level.tree
                pending += [
                    (item.sha, f"{prefix}{item.path}/")
                    for item in reversed(items)
                    if item.is_folder and self._enters(prefix + item.path, folder)
                ]
            yield from self._files(items, prefix)

    def _enters(self, path: str, folder: str) -> bool:
        """Whether files of the place may be below a folder of the repository."""
        if folder and (folder == path or folder.startswith(f"{path}/")):
            return True
        relative = path_below_github_folder(path, folder)
        return relative is not None and self._rules.skip_folder(relative) is None

    def _files(self, items: list[TreeItem], prefix: str) -> Iterator[Entry | Skip]:
        assert self.commit is not None
        return github_listing_entries(
            items,
            root=self._address.root,
            folder=self.commit.folder,
            prefix=prefix,
            rules=self._rules,
            kinds=self.skipped,
        )

    def _tree(self, sha: str, *, recursive: bool) -> TreePayload:
        assert self.commit is not None
        path = f"/repos/{self.commit.repository}/git/trees/{sha}"
        more = "?recursive=1" if recursive else ""
        return github_tree_of_answer(_usable(self._api.get(path + more, most=_LARGEST_TREE)))


def _usable(answer: ApiAnswer) -> bytes:
    """Return the body of a good answer.

    Raises:
        ApiError: it is none; with the remedy.
    """
    if answer.status == 200:
        return answer.body
    why = f"HTTP status {answer.status}"
    if answer.message:
        why += f", {answer.message}"
    remedy = _REMEDIES.get(answer.status, "crawl again later")
    raise ApiError(f"{why}; {remedy}")

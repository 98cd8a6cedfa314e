"""The spider of repositories: the tree of a commit names the files, and this reads the new ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.http import Response

from smartcrawl.model.options import Options
from smartcrawl.model.pages import Visit
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.run.opening import github_source_of_run_arguments
from smartcrawl.sources.base import Source
from smartcrawl.sources.github.content import LFS_REASON, blob_sha, is_lfs_pointer
from smartcrawl.sources.kinds import GITHUB
from smartcrawl.spiders.files import FilesSpider


class GithubSpider(FilesSpider):
    """One Visit for each file that is new or changed in the commit; the listing confirms the rest.

    Its arguments are those of the spider of files, with ``url`` in place of ``root``.
    """

    name = "github"
    crawls = GITHUB.spider
    custom_settings = {  # noqa: RUF012  # as Scrapy has it
        "DOWNLOAD_HANDLERS": dict.fromkeys(
            ("http", "https"), "smartcrawl.engine.download.github.RepositoryHandler"
        ),
    }

    @classmethod
    def source_of(cls, options: Options, arguments: dict[str, Any]) -> Source:
        """Return the source that the arguments name.

        Raises:
            SourceError: no source or several sources fit, or an argument is unknown.
        """
        return github_source_of_run_arguments(options, arguments)

    def parse(self, response: Response, **_: Any) -> Iterator[Visit]:
        """Turn the answer of the handler into the Visit of its file, checked by its SHA."""
        for visit in super().parse(response):
            if visit.answer.body is not None:
                _check(visit, visit.answer.body)
            yield visit


def _check(visit: Visit, body: bytes) -> None:
    """Compare a body with the blob of the commit, and set aside a pointer of Git LFS."""
    answer = visit.answer
    listed, found = answer.etag, blob_sha(body, like=answer.etag)
    answer.etag, answer.content_length = found, len(body)
    if listed is not None and found != listed:
        answer.body = None
        visit.fail(
            Fault.CHANGED_WHILE_READ, "its bytes are not those of the commit: check GITHUB_RAW_URL"
        )
    elif is_lfs_pointer(body):
        answer.body = None
        visit.outcome, visit.error = Outcome.NOT_ACCEPTABLE, LFS_REASON

"""One request with its token, and the reason and remedy of an answer that cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from smartcrawl.sources.sharepoint.access import (
    LARGEST_ANSWER,
    Fetch,
    LibraryAnswer,
    LibraryError,
    LibraryRefusedError,
    LibraryRequest,
    LibraryUnreachableError,
    library_origin,
    sharepoint_words,
)
from smartcrawl.sources.sharepoint.payloads import sharepoint_error_words
from smartcrawl.sources.sharepoint.tokens import Tokens

_APP_ONLY = "unsupported app only token"
_THROTTLED = "spquerythrottledexception"
_NOT_INDEXED = ("list view threshold", "not indexed")


class LibraryClient:
    """Requests to the API at one origin, with its token."""

    def __init__(self, tokens: Tokens, fetch: Fetch, accept: str) -> None:
        """Set up; ``accept``: the media type of answers."""
        self.tokens = tokens
        self._fetch = fetch
        self._headers = {"Accept": accept}

    def answer(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> LibraryAnswer:
        """Return the answer to a GET; a token that is refused is renewed once.

        ``headers``: more than those of each request.

        Raises:
            LibraryError: there is no token or no answer.
        """
        request = self.tokens.authorized(
            LibraryRequest(url, {**self._headers, **headers}, LARGEST_ANSWER)
        )
        answer = self._fetch(request)
        if answer.status == 401 and not _says(answer, _APP_ONLY):
            answer = self._fetch(self.tokens.renewed(request))
        return answer

    def body(self, url: str, headers: Mapping[str, str] = MappingProxyType({})) -> bytes:
        """Return the body of a good answer.

        Raises:
            LibraryError: there is none; with the remedy.
        """
        return self.good(self.answer(url, headers))

    def good(self, answer: LibraryAnswer) -> bytes:
        """Return the body of an answer if its status is 200.

        Raises:
            LibraryError: it is another; with the remedy.
        """
        if answer.status != 200:
            raise sharepoint_refusal(answer)
        return answer.body


def sharepoint_refusal(answer: LibraryAnswer) -> LibraryError:
    """Return the error for an answer whose status is not the expected one."""
    code, message = sharepoint_error_words(answer.body)
    why = f"HTTP status {answer.status}"
    if code or message:
        why += f", {sharepoint_words(': '.join(filter(None, (code, message))))}"
    if answer.status == 429 or (answer.status >= 500 and not _says(answer, _THROTTLED)):
        return LibraryUnreachableError(f"{why}; the server is busy: crawl again later")
    return LibraryRefusedError(f"{why}; {_remedy(answer)}")


def _remedy(answer: LibraryAnswer) -> str:
    if _says(answer, _THROTTLED) or (
        answer.status == 400 and any(_says(answer, words) for words in _NOT_INDEXED)
    ):
        return (
            "the filter is over the list view threshold: index the column that the filter names,"
            " or shorten the filter"
        )
    if 300 <= answer.status < 400:
        target = sharepoint_words(library_origin(answer.headers.get("location", "")))
        return f"it redirects to {target}: check site_url"
    match answer.status:
        case 400:
            return "the request was refused: check filter"
        case 401 if _says(answer, _APP_ONLY):
            return (
                "the REST API takes certificates only: set SHAREPOINT_CERTIFICATE, or"
                " SHAREPOINT_API=graph for a secret"
            )
        case 401:
            return (
                "the token was refused: check SHAREPOINT_TENANT, and grant the app a "
                "permission for applications such as Sites.Selected or Sites.Read.All"
            )
        case 403:
            return (
                "the app lacks the right to read it: grant it Sites.Selected for this site or"
                " Sites.Read.All, and consent as administrator"
            )
        case 404 | 410:
            return (
                "there is no such site, library or list, or it was renamed: correct site_url,"
                " sharepoint_url_part or list_name in domain.json"
            )
        case 423:
            return "it is locked: let an administrator unlock it, and crawl again"
        case _:
            return "crawl again later, and check site_url if it lasts"


def _says(answer: LibraryAnswer, words: str) -> bool:
    """Whether an answer has these words, in lower case, in its body or its headers."""
    about = answer.headers.get("www-authenticate", "") + answer.headers.get("x-ms-diagnostics", "")
    return (
        words in answer.body[:65_536].decode("utf-8", "replace").lower() or words in about.lower()
    )

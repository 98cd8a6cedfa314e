"""The first sentence about a record: it names the reason, and where the content is instead."""

from typing import Any

import pytest

from smartcrawl.reports.sentence import story_sentence
from smartcrawl.rules.model import Fault, Outcome
from tests.registry.build import NOW

PAGE, OTHER = "https://docs.example.com/page", "https://docs.example.com/other"
ROBOTS = {"allowed": False, "obeyed": True, "line": 2, "agent": "*"}


def story(outcome: Outcome | None, status: int | None = 200, **more: Any) -> dict[str, Any]:
    """A record without content; `message` and `held` of `more` are its own."""
    message, held = more.pop("message", None), more.pop("held", False)
    record = {
        "status": "Indexed" if held else "Crawled", "lastStatusCode": status, "lostCount": 0,
        "errorMessage": message, "lastChecked": "2025-06-15T15:06:30Z", "lastOutcome": "failed",
    }  # fmt: skip
    return {
        "record": record, "standing": "held" if held else "bare", "textLength": 9,
        "decision": {"outcome": outcome, "text": "decided so"}, "proposal": None,
        "scope": {"allowed": True, "why": None}, "robots": None, "canonical": None,
        "redirects": [], "linksOut": {"shown": []}, "clones": {"original": None, "others": []},
        "nextVisit": {"dueAt": None, "text": "none: out of scope"},
    } | more  # fmt: skip


def link(status: str | None = None, *, in_scope: bool = True) -> dict[str, Any]:
    return {"shown": [{"url": OTHER, "inScope": in_scope, "status": status}]}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (story(Outcome.EXCLUDED, robots=ROBOTS), "robots.txt forbids it (line 2, for *)"),
        (
            story(Outcome.EXCLUDED, robots=ROBOTS, scope={"allowed": False, "why": "so far off"}),
            "so far off",
        ),
        (story(Outcome.EXCLUDED, message="its host is blocked"), "its host is blocked"),
        (
            story(Outcome.EXCLUDED, robots=ROBOTS | {"obeyed": False}),
            "robots.txt, the scope or an order excludes it",
        ),
        (
            story(Outcome.NOT_ACCEPTABLE, message="not indexed: noindex"),
            "it asks not to be indexed (noindex)",
        ),
        (
            story(Outcome.NOT_ACCEPTABLE, message="not indexed: it is empty"),
            "not indexed: it is empty",
        ),
        (
            story(Outcome.ALIAS, canonical={"url": OTHER, "status": "Indexed"}),
            f"its canonical link names {OTHER}, which is searchable in its place",
        ),
        (
            story(Outcome.ALIAS, canonical={"url": OTHER, "status": "Error"}),
            f"its canonical link names {OTHER}",
        ),
        (
            story(Outcome.REDIRECT, redirects=[PAGE, OTHER], linksOut=link("Indexed")),
            f"it redirects to {OTHER}, which is searchable in its place",
        ),
        (
            story(Outcome.REDIRECT, redirects=[PAGE, OTHER], linksOut=link(in_scope=False)),
            f"it redirects to {OTHER}, which is out of scope",
        ),
        (story(Outcome.REDIRECT, redirects=[PAGE, OTHER]), f"it redirects to {OTHER}"),
        (story(Outcome.HTTP_ERROR, 401), "it asks for a login"),
        (
            story(Outcome.UNREACHABLE, Fault.TOO_LARGE, message="the body (very) large"),
            "it is larger than DOWNLOAD_MAXSIZE permits; last visit 10 s ago failed; no next",
        ),
        (
            story(Outcome.UNPROCESSABLE, Fault.LOGIN, message="a form"),
            "a login form came in its place; last visit 10 s ago failed (a form); no next",
        ),
        (story(Outcome.UNPROCESSABLE, Fault.CORRUPT), "its content could not be read"),
        (story(None), "decided so"),
    ],
)
def test_a_page_that_is_not_searchable_says_why(given: dict[str, Any], reason: str):
    assert story_sentence(given, NOW).startswith(f"Not searchable: {reason}")


def test_a_page_that_may_not_be_requested_was_met_and_not_visited():
    sentence = story_sentence(story(Outcome.EXCLUDED, None, robots=ROBOTS, message="so"), NOW)

    assert "; last met 10 s ago, and not requested; " in sentence


def test_a_clone_names_the_page_that_a_search_shows():
    given = story(Outcome.SAME, held=True, clones={"original": OTHER, "others": []})

    assert story_sentence(given, NOW).startswith(
        f"Stored as a clone: a search shows {OTHER} in its place; last visit 10 s ago answered 200;"
    )

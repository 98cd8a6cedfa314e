"""The steps of the demo: their explanations, their commands, and the facts that they show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from smartcrawl.commands.demo_server import ADDED, DELETED, EDITED, Site
from smartcrawl.commands.demo_shell import Answer, Words
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.reports.tables import run_table_report

_ONLY_THERE: Final = "mozzarella"  #: a word that the deleted page alone has


@dataclass(slots=True)
class Scene:
    """The site, the registry, and the answers of the commands of the present step."""

    site: Site
    url: str  #: of the site
    registry: Path
    answers: list[Answer] = field(default_factory=list)

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs, newest first."""
        with closing(registry_database(self.registry).reports()) as connection:
            return list(run_table_report(connection))

    @property
    def deleted(self) -> str:
        """The address of the page that the edit deletes."""
        return self.url + DELETED.removeprefix("/")

    def sent(self, status: int) -> int:
        """Return how many requests for pages the server answered with ``status`` in this step."""
        return self.site.answers[status]

    def finds_deleted(self) -> bool:
        """Whether the last command printed the address of the deleted page."""
        return self.deleted in self.answers[-1].output


Claims = Mapping[str, bool]  #: facts in words, and whether they are true


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``claims`` compares its answers with the facts that it explains."""

    title: str
    text: str
    commands: Callable[[Scene], Sequence[Words]]
    claims: Callable[[Scene], Claims]
    changes_site: bool = False


def _crawl(scene: Scene) -> list[Words]:
    return [("crawl", scene.url)]


def _all_new(scene: Scene) -> Claims:
    run, pages = scene.runs()[0], len(scene.site.pages)
    return {
        f"{pages} pages are new": run["complete"] and run["new"] == pages,
        "the server sent each page once": scene.sent(200) == pages,
    }


def _found(scene: Scene) -> Claims:
    return {"a hit is the page that helps": "/trouble.html" in scene.answers[-1].output}


def _all_unchanged(scene: Scene) -> Claims:
    run, pages = scene.runs()[0], len(scene.site.pages)
    return {
        f"the server answered 304 for all {pages} pages": scene.sent(304) == pages,
        "0 bytes were downloaded": run["complete"] and run["bytesDownloaded"] == 0,
    }


def _three_changes(scene: Scene) -> Claims:
    run = scene.runs()[0]
    changes = [run[word] for word in ("new", "modified", "lost", "removed")]
    return {
        "1 page is new, 1 is modified, 1 is lost, none is removed": changes == [1, 1, 1, 0],
        "the server sent 2 pages": scene.sent(200) == 2,
    }


def _still_found(scene: Scene) -> Claims:
    output = scene.answers[-1].output
    return {
        "the lost page is found, and marked": scene.finds_deleted()
        and "last visit failed" in output
    }


def _removal(scene: Scene) -> list[Words]:
    return [("crawl", scene.url), ("crawl", scene.url), ("search", _ONLY_THERE)]


def _removed_by_the_third(scene: Scene) -> Claims:
    third, second, *_ = scene.runs()
    return {
        "the second run that found it gone removed nothing": second["removed"] == 0,
        "the third run removed 1 page": third["removed"] == third["gone"] == 1,
        "search does not find it any more": not scene.finds_deleted(),
    }


def _undo(scene: Scene) -> list[Words]:
    return [("undo", str(scene.runs()[0]["run"])), ("search", _ONLY_THERE)]


def _restored(scene: Scene) -> Claims:
    return {"search finds the page again, without a request": scene.finds_deleted()}


def _story(scene: Scene) -> Claims:
    output = scene.answers[-1].output
    complete = all(word in output for word in ("discovered", "lost 404", "removed", "restored"))
    return {"the history has the discovery, the loss, the removal and the undo": complete}


STEPS: Final = (
    Step(
        "The first crawl",
        "It follows every link and the sitemap, and downloads each page once. The "
        "sitemap counts as excluded: it is read, but not indexed.",
        _crawl,
        _all_new,
    ),
    Step(
        "Search",
        "The pages are searchable at once. Records and index are one file; no service is needed.",
        lambda scene: [("search", "sticky dough")],
        _found,
    ),
    Step(
        "A refresh",
        "The same command again checks whether each page changed. The site returns 304 "
        "Not Modified, so no page is downloaded, parsed or written.",
        _crawl,
        _all_unchanged,
    ),
    Step(
        "The site changes",
        f"Now {EDITED} is edited and links to a new page, {ADDED}; {DELETED} is deleted and"
        " answers 404. The next crawl finds all three, and downloads only the pages that are new"
        " or modified.",
        _crawl,
        _three_changes,
        changes_site=True,
    ),
    Step(
        "A lost page stays",
        "A 404 may be a mistake of the site. The stored page stays searchable and is marked.",
        lambda scene: [("search", _ONLY_THERE)],
        _still_found,
    ),
    Step(
        "Removal needs evidence",
        "A page is removed when three runs in a row found it gone, and the evidence is "
        "recorded. Three is the default (LOST_THRESHOLD=3); here are the second and the "
        "third run.",
        _removal,
        _removed_by_the_third,
    ),
    Step(
        "Undo",
        "If a removal was wrong, one command brings back every page that the run "
        "removed, for 30 days.",
        _undo,
        _restored,
    ),
    Step(
        "The whole story",
        "For any address, why shows the last decision and its reason, what would remove "
        "the page, and its history.",
        lambda scene: [("why", scene.deleted)],
        _story,
    ),
)

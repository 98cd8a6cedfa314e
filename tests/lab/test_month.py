"""A month of forty sources of real documentation, operated by a nightly timer alone.

Sites change, answer 500, hang, forbid all, or are away; a process is killed, a folder is not
mounted, a disk fills, and a receiver of notices is away. Each event has to be seen by the check or
a notice, and its end, too. `pytest -s` prints what happened: the day of the event, the night that
saw it, what the check and the notices said, and the night that saw its end.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.commands.due import Command as DueCommand
from smartcrawl.commands.due_choice import leave_out_not_due
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.spiders.files import FilesSpider
from smartcrawl.spiders.github import GithubSpider
from smartcrawl.spiders.sharepoint import SharepointSpider
from smartcrawl.spiders.site import SiteSpider
from tests.lab.lab_crawl import LabCrawl, _settings
from tests.lab.lab_site import LabSite
from tests.lab.month import Event, Night, fill_disk, judged_events, note, small_disk, table
from tests.lab.receivers import Hook, hook
from tests.site_server import Page, html

NIGHTS = 31
DOCS = Path("/usr/share/doc")
WEB, FOLDERS, FILES = 36, 4, 3  #: sites, folders, and documents of each
LIVELY = 9  #: sites with a page that changes every day, so that each night asks them
DAY = 86_400
_KINDS = {".html": "text/html", ".txt": "text/plain", ".md": "text/markdown", ".rst": "text/plain"}


def documentation() -> list[list[Path]]:
    """Documents of Debian's packages, by source: those of one package stay together."""
    found = [
        path
        for package in sorted(DOCS.glob("*/"))
        for path in sorted(package.rglob("*"))
        if path.suffix in _KINDS and path.is_file() and 1_500 < path.stat().st_size < 12_000
    ]
    sources = [found[at : at + FILES] for at in range(0, len(found) - FILES, FILES)]
    return sources[: WEB + FOLDERS]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which can be filled."""
    with small_disk(tmp_path / "disk", "48m") as place:
        yield place


class Month:
    """The sites, the folders, the timer and the receivers."""

    def __init__(self, crawl: LabCrawl, root: Path, ops: Hook, editors: Hook) -> None:
        self.crawl, self.root, self.ops, self.editors = crawl, root, ops, editors
        self.sites: list[LabSite] = []
        self.taken = {"ops": 0, "editors": 0}
        self.days: list[Night] = []
        self.refused: list[str] = []  #: why a timer could not begin
        docs = documentation()
        tables = [self._site(at, files) for at, files in enumerate(docs[:WEB])]
        tables += [self._folder(at, files) for at, files in enumerate(docs[WEB:])]
        crawl.web.sites[:] = self.sites
        crawl.declare("".join(tables))
        crawl.environment |= {"RETRY_TIMES": "0", "LOG_LEVEL": "CRITICAL"}
        (crawl.folder / "smartcrawl.toml").write_text(
            '[settings]\nALLOW_NETWORKS = ["127.0.0.0/8"]\n'
            f'[notify.ops]\nwebhook = "{ops.url}"\nsecret = "HOOK_SECRET"\nevents = '
            '["run.incomplete", "removal.waiting", "source.stale", "source.recovered"]\n'
            f'[notify.editors]\nwebhook = "{editors.url}"\nsecret = "HOOK_SECRET"\n'
            'events = ["changes"]\nmin_share = 0.05\n'
        )

    def _site(self, at: int, files: list[Path]) -> str:
        site = LabSite(f"web{at:02}.example")
        self.sites.append(site)
        names = [f"/{n}" for n in range(len(files))]
        for name, file in zip(names, files, strict=True):
            kind = f"{_KINDS[file.suffix]}; charset=utf-8"
            site.pages[name] = Page(file.read_bytes(), content_type=kind)
        site.pages["/"] = html(f"Documentation {at}", *names)
        return (
            f"[sources.web{at:02}]\nseeds = ['{site.url('/')}']\nmax_age = {3 * DAY}\n"
            f"url_patterns = ['^http://web{at:02}\\.example/[0-9]*$']\n"
        )

    def _folder(self, at: int, files: list[Path]) -> str:
        folder = self.root / f"folder{at}"
        folder.mkdir()
        for file in files:
            shutil.copy(file, folder / file.name)
        return f"[sources.folder{at}]\nkind = 'files'\nroot = '{folder}'\nmax_age = {3 * DAY}\n"

    def night(self, day: int) -> Night:
        """Let a day pass, and do what the timers do: what is due, the check, and notices."""
        if day:
            self.crawl.after(days=1)
        for at, site in enumerate(self.sites[:LIVELY]):
            site.pages["/2"] = self._edited(at, day)
        worst = 0
        for run in self._due():
            status = self.crawl.run("due", "--source", run, expect=None).status
            worst = max(worst, status, key=[0, 4, 3, 1].index)
        check = self.crawl.run("status", "--check", "--format", "json", expect=None)
        self.crawl.run("notify", expect=None)
        rows = json.loads(check.out)["sources"] if check.out.startswith("{") else []
        reasons = {one["source"]: one["reasons"] for one in rows if one["level"] == "alarm"}
        ill = [f"{name}: {', '.join(why)}" for name, why in reasons.items()]
        line = check.err.strip() or "; ".join(ill) or f"{len(rows)} sources are well"
        found = Night(worst, check.status, line, reasons, self._news("ops"), self._news("editors"))
        self.days.append(found)
        return found

    def _edited(self, at: int, day: int) -> Page:
        before = documentation_of(at)
        text = f"{before} Last looked at on day {day}."
        return Page(text, content_type="text/plain; charset=utf-8")

    def _due(self) -> list[str]:
        command: Any = DueCommand()
        spiders = (SiteSpider, FilesSpider, GithubSpider, SharepointSpider)
        with self.crawl._inside(["scrapy", "due"]):
            command.settings = _settings({"RECRAWL_POLICY": "due", "LOG_LEVEL": "CRITICAL"})
            try:
                runs = command.runs_of(list(spiders), {})
                due, _ = leave_out_not_due(command.settings, runs, self.crawl.now)
            except RegistryError as error:  # of a full disk: the unit of the timer fails
                self.refused.append(str(error))
                return []
        return [run.arguments["source"] for run in due]

    def _news(self, name: str) -> list[dict[str, Any]]:
        receiver: Hook = getattr(self, name)
        if receiver.status != 204:
            self.taken[name] = len(receiver.taken)
            return []
        new = [json.loads(body) for _, body in receiver.taken[self.taken[name] :]]
        self.taken[name] = len(receiver.taken)
        return new


_LIVE: dict[int, str] = {}


def documentation_of(at: int) -> str:
    """The document that changes every day."""
    if at not in _LIVE:
        _LIVE[at] = documentation()[at][2].read_text("utf-8", "replace")
    return _LIVE[at]


def events(month: Month, disk: Path) -> list[Event]:
    """What happens, by day."""
    sites = month.sites

    def all_answer(at: int, page: Page) -> Callable[[], None]:
        def begin() -> None:
            sites[at]._page = lambda path: page  # type: ignore[method-assign]

        return begin

    def answer_again(at: int) -> Callable[[], None]:
        return lambda: vars(sites[at]).pop("_page", None)

    def away(*places: int, is_down: bool) -> Callable[[], None]:
        return lambda: [setattr(sites[at], "is_down", is_down) for at in places] and None

    def rewrite() -> None:
        sites[0].pages["/0"] = html("Rewritten", text="An entirely new introduction. " * 30)

    def remove() -> None:
        del sites[1].pages["/0"]

    def edit_folder() -> None:
        first, second, *_ = sorted((month.root / "folder1").iterdir())
        first.write_text(f"{first.read_text('utf-8', 'replace')}\n{'Words of a new part. ' * 60}")
        second.unlink()

    def unmount() -> None:
        (month.root / "folder0").rename(month.root / "elsewhere")

    def mount() -> None:
        (month.root / "elsewhere").rename(month.root / "folder0")

    def kill() -> None:
        month.crawl.rows(
            "UPDATE run SET state = 0, complete = FALSE, finished_at = NULL WHERE no = (SELECT"
            " max(r.no) FROM run r JOIN source s ON s.no = r.source WHERE s.name = 'web08')"
        )

    def free() -> None:
        (disk / "filler").unlink()

    def close() -> None:
        month.ops.status = 503
        all_answer(2, Page("no", status=500))()

    def open_again() -> None:
        month.ops.status = 204
        answer_again(2)()

    wall = Page("<title>Forbidden</title>", status=403)
    return [
        Event("a page is rewritten", "web00", 2, None, rewrite),
        Event("a page is deleted", "web01", 2, None, remove),
        Event("all pages answer 500", "web02", 4, 6,
              all_answer(2, Page("no", status=500)), answer_again(2)),
        Event("no page answers in time", "web03", 6, 8,
              all_answer(3, Page("", fault="hang")), answer_again(3)),
        Event("a wall answers 403", "web04", 8, 11, all_answer(4, wall), answer_again(4)),
        Event("three hosts are away", "web05", 10, 15,
              away(5, 6, 7, is_down=True), away(5, 6, 7, is_down=False)),
        Event("files are edited and deleted", "folder1", 12, None, edit_folder),
        Event("a process is killed", "web08", 16, 17, kill),
        Event("the disk fills", "web00", 19, 20, partial(fill_disk, disk), free),
        Event("a folder is not mounted", "folder0", 22, 24, unmount, mount),
        Event("the receiver of notices is away", "web02", 26, 28, close, open_again),
    ]  # fmt: skip


@pytest.mark.long
@pytest.mark.sqlite
@pytest.mark.parametrize("stack", ["sqlite"])
def test_forty_sources_are_operated_for_a_month_by_timers_alone(
    crawl: LabCrawl, disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if len(documentation()) < WEB + FOLDERS:
        pytest.skip(f"{DOCS} has too few documents")
    monkeypatch.setenv("HOOK_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    crawl.data_dir, crawl.registry = disk / "data", disk / "data" / "registry.db"
    with hook() as ops, hook() as editors:
        month = Month(crawl, tmp_path, ops, editors)
        planned = events(month, disk)
        for day in range(NIGHTS):
            for one in planned:
                if one.day == day:
                    one.begin()
                if one.end == day:
                    one.undo()
            night = month.night(day)
            print(f"night {day}: due {night.due}, check {night.check}: {night.line}")
            for one in planned:
                note(one, day, night)
    print(f"\n{table(planned, month.days)}")
    _judge(month, {one.name: one for one in planned})


def _judge(month: Month, by_name: dict[str, Event]) -> None:
    """Each event was seen, and so was its end; nothing was removed that is only away."""
    judged_events(by_name, "a process is killed")
    assert by_name["the disk fills"].over == by_name["the disk fills"].end
    removed = month.crawl.rows(
        "SELECT s.name FROM evidence e JOIN source s ON s.no = e.source ORDER BY 1"
    )
    assert removed == [("folder1",), ("web01",)]
    assert "introduction" in month.crawl.run("diff", month.sites[0].url("/0")).out
    assert month.days[-1].check == 0

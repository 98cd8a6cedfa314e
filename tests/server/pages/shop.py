"""A registry with hostile texts of each kind, and the paths of all pages that show them."""

from pathlib import Path

from smartcrawl.model.urls import normalize_url, url_digest
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.model import Outcome
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.server.keys import Scope
from tests.registry.build import LATER, NOW, Desk
from tests.server.jobs.conftest import defined
from tests.server.pages.browsing import made_key
from tests.server.pages.site_map import page_paths

SCRIPT = "<img src=x onerror=alert(1)><b hx-get=/docs hx-trigger=load>"
ODD = f"https://docs.example.com/'\">{SCRIPT}"
SCRIPTED = "javascript:alert(1)//https://docs.example.com/"
HOME = "https://docs.example.com/"
ORDER = "ro_00000000000000aa"


class Shop:
    """A registry whose texts are hostile, with an open run, and its server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.desk = Desk(folder / "registry.db")
        self.desk.source = "other"
        self.desk.open(now=NOW)
        self.desk.index(f"https://other.example/{SCRIPT}", SCRIPT, title=SCRIPT)
        self.desk.seal(f"seed_failed: {ODD}", now=NOW)
        self.desk.source = "docs"
        self.desk.open(now=NOW)
        self.desk.index(HOME, SCRIPT, title=SCRIPT)
        self.number = self.desk.index(ODD, SCRIPT, title=SCRIPT, etag=f'"{SCRIPT}"')
        self.desk.seal(f"seed_failed: {ODD}", now=NOW)
        self.desk.open(now=LATER)
        lost = self.desk.visit(ODD, outcome=Outcome.NOT_FOUND, status=404, error=SCRIPT)
        changed = self.desk.visit(HOME, f"{SCRIPT} {SCRIPT}")
        reached = {self.number: 0, self.desk.number(HOME): 0}
        self.desk.write(lost, changed, reached=reached, now=LATER)
        with transaction(self.desk.connection):
            for statement, value in (
                ("UPDATE record SET redirect_target = ?", SCRIPTED),
                ("UPDATE record SET canonical_url = ?", SCRIPTED),
                ("UPDATE host SET is_blocked = TRUE, block_reason = ?", SCRIPT),
                ("INSERT INTO candidate (no, source, run, renewed, rule, detail, withheld)"
                 " SELECT no, source, 1, 3, 1, json_object('why', ?), TRUE FROM record", SCRIPT),
            ):  # fmt: skip
                self.desk.connection.execute(statement, (value,)).fetchall()
            self.desk.connection.execute(
                "INSERT INTO removal_order (id, source, action, run, most, orderer, state, reasons,"
                " created_at, ended_at, url) VALUES (?, 'docs', 'forget', 2, 1, ?, 'ended',"
                " json_array(?), 5, 6, ?)",
                (ORDER, SCRIPT, SCRIPT, ODD),
            ).fetchall()
        database = registry_database(folder / "registry.db")
        jobs = JobStore(database, self.desk.connection)
        self.job = jobs.create(defined("nightly", cron="0 3 * * 1"), (), NOW).id
        self.desk.rows("UPDATE job SET status = 'paused'")  # so that none of its runs begins
        self.key = made_key(folder, Scope.ADMIN)
        ((self.key_id,),) = self.desk.rows("SELECT id FROM api_key")


#: Pages that show what is hostile.
PAGES = [
    "/records/{no}?text=true&links_in=true", "/records/{no}/forget", "/records?url={odd}",
    "/changes", "/changes?since=2", "/removals", "/runs", "/runs/1", "/runs/2?list=new", "/runs/3",
    "/sources", "/status", "/hosts",
]  # fmt: skip


#: States of pages that no route shows by itself, and what is no page.
STATES = ["/?q=alert", "/?q=zzzxq&source=docs", "/frontier?hosts=all", "/none",
          "/records/999", "/try?urls=https://docs.example.com/new%0Ahttps://a.example/%0Ax",
          "/jobs/new?name=a&cron=0+3+*+*+1"]  # fmt: skip


def path_of(shop: Shop, page: str) -> str:
    odd = "https%3A%2F%2Fdocs.example.com%2F%3Cimg%20src=x%20onerror=alert(1)%3E"
    return page.format(no=shop.number, odd=odd)


def site_map(shop: Shop, folder: Path) -> list[str]:
    """A path of each page, and of its states."""
    key = url_digest(normalize_url(ODD)).hex()
    values = {
        "no": shop.number, "url_hash": key, "run": 3, "order": ORDER, "job": shop.job,
        "key_id": shop.key_id,
    }  # fmt: skip
    shown = [path_of(shop, page) for page in PAGES]
    return list(dict.fromkeys([*page_paths(folder, values), *shown, *STATES]))

"""Every command of docs/api.md is run as it stands there, in order, against a real server.

Only the address of the server, the example's ids and keys, and the place of a file are put in.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.answers import EXAMPLE_KEY
from smartcrawl.server.explained.answers import EXAMPLE_ORDER
from smartcrawl.server.jobs.answers import EXAMPLE_JOB
from smartcrawl.server.jobs.declared import api_job_id
from tests.index.vectorstore.store_server import stores_server
from tests.server.data.library import Library
from tests.server.data.origins import Origin, plain
from tests.server.library.test_library_cleanup import Archive
from tests.server.test_serve import serving

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "api.md"
URL = "http://127.0.0.1:8080"
KEY = "sc_…"
DECLARED = api_job_id("docs")
COMMAND = re.compile(r"^    (?!-|\s)(\S.*)$", re.MULTILINE)
#: Pages that the commands are about, with the sources that nothing crawls meanwhile.
PAGES = ("https://example.com/article/123", "https://docs.example.com/guide")
SOURCES = "[sources.one]\nseeds = ['https://docs.example.com/']\nhook = 'DOCS_HOOK'\n"
NOTICE_KEY = "0f6c2a9e4b7d4d1e"
OF_FILE = {"name": "of-a-file", "seed_urls": ["https://docs.example.com/"]}


ROBOTS = """
INSERT INTO robots (origin, fetched_at, status, body) VALUES ('https://example.com', 1, 200, ?)
"""


def store_removals(library: Library) -> None:
    """Store a page that waits for an approval of run 2, one that was removed, and one to forget."""
    for no, name in ((2, "two"), (3, "three"), (4, "four"), (5, "five")):
        library.execute(
            "INSERT INTO source (no, name, kind, created_at) VALUES (?, ?, 'site', 0)"
            " ON CONFLICT DO NOTHING",
            (no, name),
        )
        library.execute(
            "INSERT INTO run (no, source, number, started_at, finished_at, state, complete)"
            " VALUES (?, ?, ?, 1, 2, 4, TRUE)",
            (no, no, no),
        )
    runs = {"reached_run": 2, "visited_run": 2, "seen_run": 2}
    library.put("https://two.example/", record={"source": 2}, **runs)
    library.put("https://three.example/", record={"source": 3}, standing=0)
    library.put("https://four.example/", record={"source": 4})
    library.put("https://five.example/", record={"source": 5}, lost_count=1, http_status=404)
    library.execute(
        "INSERT INTO candidate (no, source, run, renewed, rule, detail, withheld)"
        " SELECT no, 2, 2, 2, 1, '{}', TRUE FROM record WHERE source = 2"
    )
    library.execute(
        "INSERT INTO evidence (record, source, run, rule, at, detail, restore)"
        " SELECT no, 3, 3, 1, 2, '{}', '{}' FROM record WHERE source = 3"
    )


class Reader:
    """Types the commands of the page, and knows the ids that the answers gave."""

    def __init__(self, folder: Path, url: str, site: str) -> None:
        """``site``: host and port of the site that sends notices."""
        self._folder = folder
        self._site = site
        self._url = url
        self._job, self._order = EXAMPLE_JOB, EXAMPLE_ORDER
        self._key, self._key_id = KEY, EXAMPLE_KEY
        self.described: dict[str, Any] = httpx.get(f"{url}/openapi.json", timeout=60).json()[
            "paths"
        ]
        self.asked: set[tuple[str, str]] = set()

    def type(self, command: str) -> None:
        """Run a command; a request succeeds with a status that its endpoint documents."""
        line = command.replace(URL, self._url).replace(EXAMPLE_JOB, self._job)
        line = line.replace(EXAMPLE_ORDER, self._order)
        line = line.replace(KEY, self._key).replace(DECLARED, api_job_id("one"))
        line = line.replace(f"/keys/{EXAMPLE_KEY}", f"/keys/{self._key_id}")
        line = line.replace("/hooks/docs", "/hooks/one").replace("source=docs", "source=one")
        line = line.replace('"source": "docs"', '"source": "one"')
        if "/indexnow" in line:
            line = line.replace("https://docs.example.com", f"http://{self._site}")
            line = line.replace("docs.example.com", self._site)
        if line.startswith("smartcrawl "):
            program = f"{sys.executable} -m smartcrawl"
            line = f"{program}{line.removeprefix('smartcrawl')} --data-dir {self._folder}"
            self._key = self._run(line).splitlines()[0]
            assert self._key.startswith("sc_")
            return
        assert line.startswith("curl "), f"neither curl nor smartcrawl: {command}"
        options = "--silent --show-error --fail-with-body --max-time 30 --noproxy '*'"
        shown = r"--write-out '\n%{http_code} %{method} %{url_effective}'"
        printed = self._run(f"curl {options} {shown} {line.removeprefix('curl ')}")
        body, _, last = printed.rpartition("\n")
        status, method, url = last.split(" ", 2)
        operation = self._operation(method, url)
        assert status in self.described[operation[1]][operation[0].lower()]["responses"], command
        assert status.startswith("2"), command
        self.asked.add(operation)
        if status == "201":
            made = json.loads(body)
            self._job = made.get("job_id", self._job)
            self._key_id = made.get("key_id", self._key_id)
        if operation[1].endswith("/approve"):
            self._order = json.loads(body)["order_id"]

    def _run(self, line: str) -> str:
        end = time.monotonic() + 120
        while True:
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=self._folder,
                env=os.environ | {"PYTHONPATH": str(ROOT)},  # as the command smartcrawl finds it
                capture_output=True,
                text=True,
                check=False,
            )
            if "is not over: wait for it" not in done.stdout or time.monotonic() > end:
                break
            time.sleep(0.5)  # as the reader would: an order before it is a process of its own
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _operation(self, method: str, url: str) -> tuple[str, str]:
        path = url.removeprefix(self._url).partition("?")[0]
        templates = [
            template
            for template in sorted(self.described)
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path)
        ]
        assert templates, url
        return method, min(templates, key=lambda template: template.count("{"))


def log_a_run(folder: Path) -> None:
    """Give the only job a run that ended, and its log."""
    with closing(registry_database(folder / "registry.db").open()) as connection:
        connection.execute(
            "INSERT INTO job_run (id, job, due_at, fired_at, state, reasons)"
            " SELECT 'jb_1', no, 1, 1, 'ended', '[]' FROM job"
        )
    (folder / "logs").mkdir()
    (folder / "logs" / "jb_1.log").write_text("Run 1")


@pytest.mark.long
def test_every_command_of_the_manual_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if shutil.which("curl") is None:
        pytest.fail("curl is missing: apt-get install curl")
    commands = COMMAND.findall(
        re.sub(r"^```.*?^```$", "", PAGE.read_text("utf-8"), flags=re.M | re.S)
    )
    (tmp_path / "job.json").write_text(json.dumps(OF_FILE))
    sources = tmp_path / "sources.toml"
    sources.write_text(SOURCES)
    with ExitStack() as stack:
        stores = stack.enter_context(stores_server())
        monkeypatch.setenv("OPENAI_API_KEY", stores.settings["OPENAI_API_KEY"])
        monkeypatch.setenv("DOCS_HOOK", "a-token-of-the-site")
        Archive(tmp_path, stores)  # the domain DOMAIN01
        library = Library(tmp_path / "registry.db", tmp_path)
        stack.callback(library.close)
        site = stack.enter_context(Origin())
        site.answers[f"/{NOTICE_KEY}.txt"] = plain(NOTICE_KEY.encode())
        for page in PAGES:
            library.put(page)
        store_removals(library)
        library.put(f"http://{site.host}/guide")  # after the records that the manual names
        library.execute(ROBOTS, (b"User-agent: *\nDisallow: /admin/",))
        for name in ("one", "documents", OF_FILE["name"]):  # nothing is crawled
            lease = library.database.take(str(name), "today")
            assert lease is not None
            stack.callback(lease.release)
        server = stack.enter_context(
            serving(
                tmp_path,
                SOURCES_FILE=str(sources),
                VECTOR_STORE_URL=stores.url,
                API_INDEXNOW="1",
                ALLOW_NETWORKS="127.0.0.1/32",
                ALLOW_PORTS=f"80,443,{site.port}",
            )
        )
        reader = Reader(tmp_path, server.url, site.host)
        for command in commands:
            if "/jobs/" in command and "/log" in command:
                log_a_run(tmp_path)
            reader.type(command)

    described = {
        (method.upper(), path) for path, methods in reader.described.items() for method in methods
    }
    assert reader.asked == described

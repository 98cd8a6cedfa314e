"""Clients that generators make of the description: they are made without errors, and work."""

import asyncio
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from tests.server.api_client import application, ask
from tests.server.described import Described
from tests.server.jobs.conftest import NOW

NAME = "generated_smartcrawl_client"
CRON = {"type": "recurring", "cron": "0 3 * * 1"}
DEFINITION = {"name": "docs", "seed_urls": ["https://docs.example.com/"], "schedule": CRON}


def generated(*words: str) -> None:
    """Run a generator, which has to end well and to warn of nothing."""
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert "warning" not in done.stdout.lower(), done.stdout


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The description in a file, as generators read it."""
    folder = tmp_path_factory.mktemp("description")
    file = folder / "openapi.json"
    file.write_text(ask(application(folder), "GET", "/openapi.json").text)
    return file


@pytest.fixture(scope="module")
def client(description: Path) -> Iterator[ModuleType]:
    """The package that openapi-python-client makes."""
    folder = description.parent
    (folder / "config.yaml").write_text("post_hooks: []\n")
    generated(
        "openapi_python_client", "generate", "--fail-on-warning", "--meta", "none",
        "--path", str(description), "--config", str(folder / "config.yaml"),
        "--output-path", str(folder / NAME),
    )  # fmt: skip
    sys.path.insert(0, str(folder))
    yield importlib.import_module(NAME)
    sys.path.remove(str(folder))


class Caller:
    """The calls of a generated client, to an application in this process."""

    def __init__(self, package: ModuleType, app: ASGIApp) -> None:
        self.models = importlib.import_module(f"{package.__name__}.models")
        self._package = package
        self._app = app

    def call(self, name: str, *values: object, **named: object) -> Any:
        """Return the answer to a call, such as ``jobs.create_job``."""
        module = importlib.import_module(f"{self._package.__name__}.api.{name}")

        async def answered() -> Any:
            client = self._package.Client(base_url="http://localhost:8080")
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=client._base_url) as http:
                client.set_async_httpx_client(http)
                return await module.asyncio(*values, client=client, **named)

        return asyncio.run(answered())


def test_a_generated_client_creates_lists_and_pauses_a_job(client: ModuleType, tmp_path: Path):
    caller = Caller(client, application(tmp_path, clock=lambda: float(NOW)))
    models = caller.models

    definition = models.JobDefinition.from_dict(DEFINITION)
    created = caller.call("jobs.create_job", body=definition)
    listed = caller.call("jobs.list_jobs", limit=10)
    paused = caller.call("jobs.pause_job", created.job_id)
    order = models.JobOrder(action=models.JobAction.RESUME)
    resumed = caller.call("jobs.control_job", created.job_id, body=order)
    read = caller.call("jobs.get_job", created.job_id)
    unknown = caller.call("jobs.get_job", "job_0000000000000000")

    assert isinstance(created, models.JobHead)
    assert created.created_at == datetime.fromtimestamp(NOW, UTC)
    assert [job.job_id for job in listed.jobs] == [created.job_id]
    assert listed.pagination.total == 1
    assert (paused.status, resumed.status) == (models.JobStatus.PAUSED, models.JobStatus.SCHEDULED)
    assert isinstance(read, models.JobDetail)
    assert read.schedule.to_dict() == CRON
    assert read.seed_urls == DEFINITION["seed_urls"]
    assert unknown.error.code == models.ErrorCode.NOT_FOUND


def test_a_generated_client_posts_addresses(client: ModuleType, tmp_path: Path):
    caller = Caller(client, application(tmp_path))
    url = caller.models.PostedUrl(url="https://example.com/page1", priority=1)

    posted = caller.call("data.add_urls", body=caller.models.PostedUrls(urls=[url]))

    assert (posted.added, posted.urls[0].sources) == (1, ["documents"])


@pytest.mark.long
def test_generated_models_take_answers_of_today_and_of_later_versions(
    description: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    generated(
        "datamodel_code_generator", "--input", str(description), "--input-file-type", "openapi",
        "--output-model-type", "pydantic_v2.BaseModel", "--formatters", "builtin",
        "--output", str(tmp_path / "generated_models.py"),
    )  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path))
    models = importlib.import_module(Path("generated_models.py").stem)
    answer = ask(application(tmp_path), "POST", "/api/v1/jobs", json=DEFINITION).json()

    head = models.JobHead.model_validate(answer | {"of_a_later_version": 1})

    assert (head.name, head.version, head.status) == ("docs", 1, models.JobStatus.scheduled)
    assert head.next_run.tzinfo is not None


@pytest.mark.covers("R2-02", "R2-04")
def test_the_description_names_its_parts_plainly_and_permits_further_keys(tmp_path: Path):
    described = Described(application(tmp_path))
    data = described.data
    operations = described.operations()
    names = [operation.data["operationId"] for operation in operations]
    answers = [
        part
        for operation in operations
        for status, answer in operation.data["responses"].items()
        for content in answer.get("content", {}).values()
        if status.startswith("2")
        for part in described.parts(content["schema"])
    ]

    assert [name for name in data["components"]["schemas"] if not name.isalpha()] == []
    assert len(set(names)) == len(names)
    assert [name for name in names if "api" in name or "crawler" in name] == []
    assert [part for part in answers if part.get("additionalProperties") is False] == []
    assert data["servers"][0]["url"] == "/"
    bodies = [one.body["schema"] for one in operations if one.body is not None]
    assert [json.dumps(body) for body in bodies if "properties" in body] == []


@pytest.mark.covers("R2-02")
def test_every_time_of_an_answer_is_described_as_one(tmp_path: Path):
    schemas = Described(application(tmp_path)).data["components"]["schemas"]
    found = {
        name: schema["properties"][name]
        for schema in schemas.values()
        for name in schema.get("properties", {})
        if name.endswith(("_at", "next_run", "Checked", "Changed", "_completion"))
        and name != "discovered_at"  # of a request, which also takes dates
    }

    assert len(found) >= 10
    for name, schema in found.items():
        kinds = schema.get("anyOf", [schema])
        assert {"type": "string", "format": "date-time"}.items() <= kinds[0].items(), name

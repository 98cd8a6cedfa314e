"""What commands print of results that are seldom met, without a process."""

import json
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.commands import audit, embed, library_actions, plan
from smartcrawl.index.debts import PaidDebts
from smartcrawl.index.vectorstore.ports import UploadedFile
from smartcrawl.registry.repair.salvage import Copied, MendedRows, Salvaged
from smartcrawl.run.pushing import LeftUploads

Printed = pytest.CaptureFixture[str]


def test_a_plan_says_of_kept_pages_alone_that_the_check_failed(capsys: Printed):
    part = {"count": 1, "shown": []}
    plan._print_plan(
        {"source": "docs", "known": 9, "note": None, "asks": None}
        | {"withheld": part, "heldByFailedLook": part}
    )

    _, withheld, kept = capsys.readouterr().out.splitlines()[:3]
    assert withheld.split() == ["withheld", "1"]
    assert kept.strip().endswith("1, because the check before removal failed")


def test_a_salvage_says_one_of_one_row_and_several_of_others(capsys: Printed):
    mended = MendedRows(fetched_again=1, sources=2, hosts=0, dropped=3)
    done = Salvaged(Path("registry.db.damaged"), (Copied("record", 5),), mended)

    audit.print_salvage_command(done, as_json=False)

    shown = capsys.readouterr().out
    assert "\n1 page has lost content or state; the next crawl downloads it again\n" in shown
    assert "\n2 sources have lost their names and are now called salvaged-NUMBER\n" in shown
    assert "\n3 rows are unreadable or belong to missing ones, and are left out\n" in shown
    assert "host" not in shown


def test_embed_names_the_page_and_the_reason_of_a_text_without_a_vector(capsys: Printed):
    paid = PaidDebts(refused=1, reasons=[("http://a.example/a", "too long")])
    embedder: Any = SimpleNamespace(name="openai", model="m", dimension=4)
    command = embed.Command()
    command.dry = False

    command._print(embedder, paid, Namespace(format="json"))
    assert json.loads(capsys.readouterr().out)["reasons"] == [
        {"url": "http://a.example/a", "reason": "too long"}
    ]
    command._print(embedder, paid, Namespace(format="table"))
    assert "  http://a.example/a: too long\n" in capsys.readouterr().out


@pytest.fixture
def clean_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[LeftUploads], bool]:
    """`library cleanup --files`, which finds these uploads."""

    def cleaned(found: LeftUploads) -> bool:
        database = SimpleNamespace(
            exists=lambda: True,
            translated=lambda doing: nullcontext(),
            open=lambda: SimpleNamespace(close=lambda: None),
        )
        uploads = SimpleNamespace(found=lambda: found)
        monkeypatch.setattr(library_actions, "registry_database", lambda place: database)
        monkeypatch.setattr(library_actions, "RunLeftUploads", lambda *_: uploads)
        server = SimpleNamespace(destination="http://store.example")
        options: Any = SimpleNamespace(store_server=server, registry="registry.db")
        opts = Namespace(yes=False, format="table")
        line = library_actions._Line((), {"DATA_DIR": ".smartcrawl"}, options, opts)
        return library_actions._clean_up_uploads(line)

    return cleaned


def test_a_cleanup_names_uploads_at_other_servers_only_where_there_are_some(
    clean_up: Callable[[LeftUploads], bool], capsys: Printed
):
    left = UploadedFile("file-1", "a.md", 5, 0)

    assert clean_up(LeftUploads([left]))
    assert "other servers" not in capsys.readouterr().out
    assert clean_up(LeftUploads([left], elsewhere=2))
    assert "2 uploads at other servers: set VECTOR_STORE_URL" in capsys.readouterr().out

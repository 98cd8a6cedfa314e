"""``smartcrawl mcp`` where it does not serve: what is missing, and the remedy."""

import sys
from importlib import util
from pathlib import Path

import pytest

from smartcrawl.commands import mcp
from smartcrawl.commands.front import main_command
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server import running


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Return the exit status and the message of a command line."""
    monkeypatch.setattr(sys, "argv", ["smartcrawl"])

    def ended(*words: str) -> tuple[int, str]:
        try:
            status = main_command(["mcp", "--data-dir", str(tmp_path), *words])
        except SystemExit as end:
            status = int(end.code or 0)
        printed = capsys.readouterr()
        assert printed.out == ""
        return status, " ".join(printed.err.split())

    return ended


@pytest.fixture
def registry(tmp_path: Path) -> None:
    registry_database(tmp_path / "registry.db").open().close()


def test_a_registry_that_does_not_exist_is_named_with_the_remedy(said, tmp_path: Path):
    status, text = said()

    assert status == 1
    assert f"there is no registry at {tmp_path / 'registry.db'} yet" in text
    assert "smartcrawl crawl https://…" in text
    assert not (tmp_path / "registry.db").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1"])
def test_without_a_key_only_loopback_is_served(
    said, registry: None, host: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(running, "serve_api", lambda *_: pytest.fail("it serves"))
    status, text = said("--http", f"{host}:0")

    assert status == 1
    assert "every request needs an API key, but there is none" in text
    assert "serve --create-key NAME --scope read" in text


@pytest.mark.parametrize("address", ["8090", ":8090", "127.0.0.1:", "127.0.0.1:port", ""])
def test_an_address_without_host_or_port_is_wrong_usage(said, registry: None, address: str):
    status, text = said("--http", address)

    assert status == 2
    assert "--http takes HOST:PORT, such as 127.0.0.1:8090" in text


@pytest.mark.parametrize("address", ["mcp.example:8090", "127.0.0.1:70000"])
def test_an_address_that_is_none_is_refused(said, registry: None, address: str):
    status, text = said("--http", address)

    assert status == 1
    assert "expected" in text


def test_words_are_refused(said, registry: None):
    assert said("docs")[0] == 2


def test_without_the_package_the_extra_is_named(
    said, registry: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        mcp, "find_spec", lambda name: None if name == "mcp" else util.find_spec(name)
    )

    status, text = said()

    assert status == 1
    assert "pip install 'mcp==" in text

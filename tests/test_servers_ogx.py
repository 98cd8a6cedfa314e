"""Where ogx cannot be had."""

from pathlib import Path

import pytest

from tests.servers import UnavailableError, ogx_server, vectors


@pytest.mark.parametrize("required", ["0", "1"])
def test_a_machine_without_a_newer_python_skips(monkeypatch: pytest.MonkeyPatch, required: str):
    monkeypatch.setenv("SMARTCRAWL_REQUIRE_SERVERS", required)
    monkeypatch.setattr(vectors, "newer_python", lambda: None)

    with pytest.raises(pytest.skip.Exception, match=r"needs Python 3\.12"), ogx_server():
        pass


@pytest.mark.parametrize(
    ("required", "outcome"), [("0", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_packages_that_cannot_be_had_are_named(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
):
    monkeypatch.setenv("SMARTCRAWL_REQUIRE_SERVERS", required)
    monkeypatch.setattr(vectors, "newer_python", lambda: Path("/usr/bin/python3"))
    monkeypatch.setattr(vectors, "ogx_lookup", lambda python: UnavailableError("no network"))

    with pytest.raises(outcome, match="no network"), ogx_server():
        pass


def test_an_older_python_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    old = tmp_path / "versions" / "3.9.9" / "bin" / "python3"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    monkeypatch.setattr(vectors.sys, "executable", str(old))
    monkeypatch.setattr(vectors.shutil, "which", lambda name: None)
    vectors.newer_python.cache_clear()
    try:
        assert vectors.newer_python() is None
        old.write_text("#!/bin/sh\nexit 0\n")
        vectors.newer_python.cache_clear()
        assert vectors.newer_python() == old
    finally:
        vectors.newer_python.cache_clear()

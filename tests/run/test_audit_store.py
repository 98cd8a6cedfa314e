"""A domain whose vector store is gone: what an audit finds."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.index.vectorstore.ports import ListedFile
from smartcrawl.run.library import audit
from smartcrawl.run.library.audit import DomainAudit, DomainFindings
from smartcrawl.run.library.comparison import Difference, Place
from smartcrawl.run.library.store import StoreAbsentError
from tests.choices import options


def test_a_store_that_is_gone_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def pages(store: object) -> Iterator[list[ListedFile]]:
        raise StoreAbsentError("there is no vs_1")

    monkeypatch.setattr(audit, "run_domain_store_pages", pages)
    domain: Any = SimpleNamespace(domain_id="DOMAIN01", every_source=())
    store: Any = SimpleNamespace(store="vs_1")
    connection: Any = None
    with DomainFindings("DOMAIN01") as findings:
        DomainAudit(domain, options(tmp_path), connection)._compare_store(findings, [], store)
        [found] = findings

    assert found[:4] == (Place.VECTOR_STORE, Difference.MISSING, "", "vs_1")
    assert "correct vector_store_id in domain.json" in found.detail

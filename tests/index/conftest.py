"""Tests of this folder run with both databases, as the contract says."""

from collections.abc import Iterator

import pytest
from elasticsearch import Elasticsearch as Client

from tests.registry.contract import database, file, pytest_generate_tests
from tests.servers import Elasticsearch

__all__ = ["database", "file", "pytest_generate_tests"]


@pytest.fixture
def client(elasticsearch: Elasticsearch) -> Iterator[Client]:
    with Client(elasticsearch.url) as client:
        yield client


@pytest.fixture
def prefix(elasticsearch_prefix: str) -> str:
    return elasticsearch_prefix

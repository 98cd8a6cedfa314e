"""Tests of this folder run with both databases, as the contract says."""

from tests.registry.contract import begun, database, file, pytest_generate_tests

__all__ = ["begun", "database", "file", "pytest_generate_tests"]

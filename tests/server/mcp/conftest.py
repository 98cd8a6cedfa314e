"""Tests with a database run with both, as the contract says."""

from tests.registry.contract import database, file, pytest_generate_tests

__all__ = ["database", "file", "pytest_generate_tests"]

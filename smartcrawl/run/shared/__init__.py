"""Several workers in one run (ADR 30)."""

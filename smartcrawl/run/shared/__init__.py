"""Several workers in one run (design.md 9)."""

"""One process as one of several workers of a run (design.md 9)."""

"""What makes a process one of several workers of a run (design.md 9)."""

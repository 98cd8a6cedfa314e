"""The frontier that several workers share: numbers in Redis, handed out by scripts.

Redis is a hint and the registry the truth (design.md 9): whatever Redis loses is filled in again,
and nobody flushes it.
"""

"""Several workers in one run (ADR 30), and the frontier that they share, in Redis.

Redis is a hint and the registry the truth: numbers that Redis loses are refilled from the
registry, and no worker flushes Redis.
"""

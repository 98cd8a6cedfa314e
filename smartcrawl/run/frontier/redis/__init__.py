"""The frontier that several workers share: numbers in Redis, handed out by scripts.

Redis is a hint and the registry the truth (design.md 9): numbers that Redis loses are refilled
from the registry, and no worker flushes Redis.
"""

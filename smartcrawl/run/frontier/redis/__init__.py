"""The frontier that several workers share: numbers in Redis, handed out by scripts.

Redis is a hint and the registry the truth (ADR 30): numbers that Redis loses are refilled
from the registry, and no worker flushes Redis.
"""

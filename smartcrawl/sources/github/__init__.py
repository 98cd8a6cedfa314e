"""Repositories of GitHub as sources: addresses, the API's answers, and listings (ADR 67).

A repository is the tree of one commit: its files are listed and read at that commit.
"""

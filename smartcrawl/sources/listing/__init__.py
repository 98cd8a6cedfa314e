"""Listings of folders and stores, and the reading of the files in them. No network but the store's.

A listing streams its entries and then names the parts that it could not list. Whether an entry
changed is decided by ``rules/files.py``, and whether an absent file is removed by the run.
"""

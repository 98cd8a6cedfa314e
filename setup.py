"""For scrapyd-deploy, which builds its egg by ``python setup.py bdist_egg``; see pyproject.toml."""

from setuptools import setup

setup()

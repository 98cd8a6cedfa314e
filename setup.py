"""For scrapyd-deploy, which builds its egg by ``python setup.py bdist_egg``; see pyproject.toml.

What is built lies in a folder of its own: a checkout may be read-only, and what an earlier build
left there, such as a module that was deleted since, is in no package.
"""

import atexit
import shutil
import sys
import tempfile

from setuptools import setup

folder = tempfile.mkdtemp(prefix="smartcrawl-build-")
atexit.register(shutil.rmtree, folder, ignore_errors=True)
# Metadata below build_base would be left out of the egg.
options = {"build": {"build_base": f"{folder}/build"}}
if "sdist" not in sys.argv:  # it packs its metadata from the checkout
    options["egg_info"] = {"egg_base": folder}
setup(options=options)

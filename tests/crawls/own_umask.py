"""Imported before a command begins: it has the mask of modes that UMASK names, in octal digits."""

import os

os.umask(int(os.environ["UMASK"], 8))

"""What lets the modes of files bind a command of root, too; imported before the command begins."""

import ctypes
import os
import sys

_VERSION = 0x20080522  #: of the structures of capset(2)
_FREE = (1 << 1) | (1 << 2)  #: CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Rights(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def give_up() -> None:
    """Give up the rights by which root opens every file, in this thread and those it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, rights = _Header(_VERSION, 0), (_Rights * 2)()
    if libc.capget(ctypes.byref(header), rights):
        raise OSError(ctypes.get_errno(), "capget")
    rights[0].effective &= ~_FREE
    rights[0].permitted &= ~_FREE
    if libc.capset(ctypes.byref(header), rights):
        raise OSError(ctypes.get_errno(), "capset")


if sys.platform == "linux" and os.geteuid() == 0:
    give_up()

"""Lets the modes of files bind root, too (``ARRANGED_BY``)."""

import ctypes
import os

OVERRIDES = (1, 2)  #: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH: root's right to pass modes
_VERSION = 0x20080522  #: of the structures of capget(2)

if os.environ.get("ARRANGED_BY") == __name__ and os.geteuid() == 0:
    _system = ctypes.CDLL(None, use_errno=True)
    _header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    _rights = (ctypes.c_uint32 * 6)()  #: effective, permitted, inheritable; and the high halves
    if _system.capget(_header, _rights):
        raise OSError(ctypes.get_errno(), "cannot read the capabilities")
    for _place in (0, 1):
        _rights[_place] &= ~sum(1 << number for number in OVERRIDES)
    if _system.capset(_header, _rights):
        raise OSError(ctypes.get_errno(), "cannot drop a capability")

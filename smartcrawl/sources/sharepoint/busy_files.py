"""Files that another process uses at this moment, on local and on network drives (R3-63)."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from typing import Final, TypeVar

_T = TypeVar("_T")
_TRIES: Final = 6
_WAIT: Final = 0.05  #: seconds before the second try; it doubles with each
#: Errors of a file that another process uses at this moment, on local and on network drives.
_CONCURRENT: Final = frozenset(
    {errno.EAGAIN, errno.EBUSY, errno.EDEADLK, errno.ENOLCK, errno.ESTALE, errno.ETXTBSY}
)


def retry_busy_sharepoint_file(action: Callable[[], _T], wait: float = _WAIT) -> _T:
    """Return the result of ``action``, which is repeated while another process is in its way.

    ``wait``: seconds before the second try. Source: R3-28, R3-63.

    Raises:
        OSError: the last try failed, or another error occurred.
    """
    for tried in range(1, _TRIES):
        try:
            return action()
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno not in _CONCURRENT:
                raise
        time.sleep(wait * 2 ** (tried - 1))
    return action()

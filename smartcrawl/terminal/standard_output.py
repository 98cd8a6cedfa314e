"""Standard output of a command: any encoding, a reader that leaves, a full disk."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.terminal.output import print_any_character

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class OutputError(SmartcrawlError):
    """Standard output could not be written."""


@contextmanager
def printed() -> Iterator[None]:
    """Print in any encoding, and end quietly when the reader stops reading, as in "… | head".

    A character that the encoding lacks is printed as ``?``.

    Raises:
        OutputError: standard output cannot be written, for example because its disk is full.
    """
    if sys.stdout is None:  # it was closed before the start
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end
    print_any_character()
    try:
        try:
            yield
        except SystemExit:  # for example of a parser, after the help
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # rich exits with status 1 then
            raise
        discard_output()
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        discard_output()
        raise OutputError(
            f"cannot write to standard output ({error.strerror}): make room there, or redirect it"
            " to another place"
        ) from error


def discard_output() -> None:
    """Discard all further output, also what is flushed at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

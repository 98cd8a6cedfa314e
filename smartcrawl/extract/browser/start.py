"""The process that becomes the browser: ``-m smartcrawl.extract.browser.start``.

It gives up the rights of root and the right to make connections, and ends with its parent. Its
arguments are its parent's number, ``sandbox`` or ``open``, the two ends of the pipes, and the
command of the browser. Where it cannot be confined, it ends with ``UNCONFINED`` and starts none.
"""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import sys
from typing import Final

from smartcrawl.extract.confine import (
    ALLOW,
    ARGUMENT,
    CLONE_NEWNET,
    CLONE_NEWUSER,
    EQUALS,
    HAS_LIMITS,
    LOAD,
    PR_SET_NO_NEW_PRIVS,
    PR_SET_PDEATHSIG,
    RETURN,
    FilterLine,
    call_number_of,
    install_call_filter,
)

if HAS_LIMITS:
    import fcntl
    import resource

UNCONFINED: Final = 71  #: exit status: the browser could make connections
NO_SANDBOX: Final = 72  #: exit status: the browser could not confine the processes of pages
SANDBOX: Final = "sandbox"
_UNPRIVILEGED: Final = 65534  #: user and group without rights, as Linux knows them
_PIPES: Final = (3, 4)  #: descriptors of Chromium's pipes

# Further instructions of a filter (seccomp(2)), and the offset of a call's second argument.
_AND, _AT_LEAST, _SECOND_ARGUMENT = 0x54, 0x35, 24
_REFUSE: Final = 0x0005000D  #: the call fails with EACCES
_X32: Final = 0x40000000  #: first number of x32, the other set of calls of x86-64
_AF_UNIX: Final = 1
_TYPE: Final = 0xF  #: bits of the type of a socket
#: SOCK_STREAM and SOCK_SEQPACKET, which send nothing before connect(), which is refused.
_CONNECTED: Final = (1, 5)

# fmt: off
#: The kernel's name of a machine, its socket(), and calls that are refused whatever they ask:
#: connect, io_uring_setup, ptrace, process_vm_writev, pidfd_getfd.
_MACHINES: Final = {
    "x86_64": (0xC000003E, 41, (42, 425, 101, 311, 438)),
    "aarch64": (0xC00000B7, 198, (203, 425, 117, 271, 438)),
}
# fmt: on


def browser_call_filter(machine: str) -> list[FilterLine] | None:
    """Return the filter of the calls of a browser, None where the machine is not known.

    It may make sockets of the machine itself for its own processes, and connect none: neither to
    the Internet nor to a service such as systemd-resolved that would ask in its place.
    """
    if machine not in _MACHINES:
        return None
    name, socket, refused = _MACHINES[machine]
    lines = [*call_number_of(name), (_AT_LEAST, 0, 1, _X32), (RETURN, 0, 0, _REFUSE)]
    for number in refused:
        lines += [(EQUALS, 0, 1, number), (RETURN, 0, 0, _REFUSE)]
    lines += [(EQUALS, 1, 0, socket), (RETURN, 0, 0, ALLOW)]
    lines += [(LOAD, 0, 0, ARGUMENT), (EQUALS, 1, 0, _AF_UNIX), (RETURN, 0, 0, _REFUSE)]
    lines += [(LOAD, 0, 0, _SECOND_ARGUMENT), (_AND, 0, 0, _TYPE)]
    for kind in _CONNECTED:
        lines += [(EQUALS, 0, 1, kind), (RETURN, 0, 0, ALLOW)]
    return [*lines, (RETURN, 0, 0, _REFUSE)]


def confine_browser(machine: str) -> bool:
    """Give up the right to make connections, for good; return whether that is done.

    Where the kernel filters no calls, the process moves to a network without any interface.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    lines = browser_call_filter(machine)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    if lines is not None and sys.maxsize >= 2**32 and install_call_filter(libc, lines):
        return True
    return _leave_network(libc)


def _leave_network(libc: ctypes.CDLL) -> bool:
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        return bool(libc.unshare(CLONE_NEWNET) == 0)
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"),
                       ("gid_map", f"{group} {group} 1")):  # fmt: skip
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return True


def browser_owner() -> int | None:
    """Return the user that a browser started by root becomes; None: it stays what it is."""
    return _UNPRIVILEGED if os.geteuid() == 0 else None


def _drop_root() -> None:
    owner = browser_owner()
    if owner is not None:
        os.setgroups([])
        os.setgid(owner)
        os.setuid(owner)


def _has_user_namespaces() -> bool:
    """Whether the browser can confine the processes of its pages: by name spaces and chroot."""
    child = os.fork()
    if child == 0:
        libc = ctypes.CDLL(None)
        os._exit(libc.unshare(CLONE_NEWUSER) != 0 or libc.chroot(b"/") != 0)
    return os.waitpid(child, 0)[1] == 0


def become_browser(parent: str, sandbox: str, read: str, write: str, *command: str) -> int:
    """Become the browser; return the exit status where it cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    confined = sys.platform == "linux" and confine_browser(platform.machine())
    if not confined:
        return UNCONFINED
    _drop_root()
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # another user resets it
    if os.getppid() != int(parent):
        return 1  # it ended meanwhile
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sandbox == SANDBOX and not _has_user_namespaces():
        return NO_SANDBOX
    above = [fcntl.fcntl(int(end), fcntl.F_DUPFD, _PIPES[-1] + 1) for end in (read, write)]
    for end, wanted in zip(above, _PIPES, strict=True):
        os.dup2(end, wanted)
    os.closerange(_PIPES[-1] + 1, os.sysconf("SC_OPEN_MAX"))
    os.execv(command[0], command)  # noqa: S606  # no shell
    return 1


if __name__ == "__main__":
    sys.exit(become_browser(*sys.argv[1:]))

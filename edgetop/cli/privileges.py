"""Root privileges: what needs them, and how a command under sudo(8) gives them up."""

import ctypes
import os
import pwd
import shlex
import shutil
import sys
from collections.abc import Sequence

_PR_SET_DUMPABLE = 4  # prctl(2)


def with_sudo(words: Sequence[str]) -> str:
    """The command line that runs edgetop with these words as root. sudo does not search the user's own PATH."""
    program = shutil.which("edgetop")
    return shlex.join(["sudo", *([program] if program else [sys.executable, "-m", "edgetop"]), *words])


def invoking_user() -> pwd.struct_passwd | None:
    """Return the user who called sudo; None: no sudo, or root itself."""
    number = os.environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not number.isdecimal() or int(number) == 0:
        return None
    try:
        return pwd.getpwuid(int(number))
    except KeyError:
        return None


def become(user: pwd.struct_passwd) -> None:
    """Become that user for good, with the user's own folders: all that is written then belongs to the user."""
    os.initgroups(user.pw_name, user.pw_gid)
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    os.environ.update(HOME=user.pw_dir, USER=user.pw_name, LOGNAME=user.pw_name)
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # or its /proc/self would stay root's

"""Whether a folder is safe to load code from: compiled functions are, and a SHA-256 beside them is no signature."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

#: Of the files there: what was compiled in another one is compiled again.
FORMAT = "digest"
#: Modules beside this with kernels of all families.
SHARED = ("annealing.py", "sorting.py")


def trusted(folder: Path) -> bool:
    """Whether nobody but the user and root can put anything into ``folder``, or another folder into its place.

    Each folder on the way belongs to one of the two, and no other may write there. In a folder with the sticky bit
    (``/tmp``) others may, as they can't replace what isn't theirs; but ``folder`` itself must not be such a one.
    """
    try:
        whole = folder.resolve(strict=True)
        return _own(whole, sticky=False) and all(_own(parent, sticky=True) for parent in whole.parents)
    except OSError:
        return False


def _own(folder: Path, sticky: bool) -> bool:
    state = folder.stat()
    if state.st_uid not in (os.geteuid(), 0):
        return False
    if sticky and state.st_mode & stat.S_ISVTX:
        return True
    others = bool(state.st_mode & stat.S_IWOTH)
    return not others and (not state.st_mode & stat.S_IWGRP or _has_no_other_member(state.st_gid))


def _has_no_other_member(group: int) -> bool:
    """Whether it is root's group, or the one of the user's own name (usual where the umask is 002)."""
    if group == 0:
        return True
    with suppress(KeyError):
        user, found = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
        return found.gr_name == user.pw_name and set(found.gr_mem) <= {user.pw_name}
    return False

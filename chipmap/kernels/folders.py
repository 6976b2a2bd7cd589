"""Files of compiled functions: how they are sealed, which sources they are of, and whether a folder is safe to load
code from (a SHA-256 beside them is no signature). numba isn't imported for it."""

from __future__ import annotations

import grp
import hashlib
import io
import os
import pickle
import pwd
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

#: Of the files there: what was compiled in another one is compiled again.
FORMAT = "digest"
#: Modules beside this with kernels of all families.
SHARED = ("annealing.py", "arrays.py", "sorting.py", "records.py")
#: Bytes of a SHA-256.
_DIGEST = 32


def sealed(content: bytes) -> bytes:
    """The content behind its SHA-256."""
    return hashlib.sha256(content).digest() + content


def whole(data: bytes) -> bytes:
    """The content, if it is as it was written."""
    digest, content = data[:_DIGEST], data[_DIGEST:]
    if hashlib.sha256(content).digest() != digest:
        raise ValueError("is not as it was written")
    return content


@cache
def sources_hash(family: str, rooms: tuple[Path, ...]) -> str:
    """A hash of all Python files of ``family``, by name and content, and of the kernels that all families share."""
    found = hashlib.sha256(b"".join(Path(__file__).with_name(name).read_bytes() for name in SHARED))
    for room in rooms:
        for path in sorted((room / family).rglob("*.py")):
            data = path.read_bytes()
            found.update(f"{path.relative_to(room)} {len(data)} ".encode() + data)
    return found.hexdigest()


def fresh(index: Path, stamp: str) -> bool:
    """Whether the file lists functions that were compiled from the sources with this hash."""
    with suppress(Exception):  # a damaged pickle may raise anything
        content = io.BytesIO(whole(index.read_bytes()))
        pickle.load(content)  # numba's version
        return bool(pickle.load(content) == stamp)
    return False


def user_cache() -> list[Path]:
    """The user's folder for what can be made again; none where there is no home."""
    with suppress(RuntimeError):
        return [Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())]
    return []


def provide(package: Path) -> bool:
    """See to it that there is a folder for compiled functions, and say whether it is one among the temporary files.

    It is where neither the ``package`` nor the user's cache can be written: a folder of the user's own, which this
    process and its children use from then on. (numba would make a folder named ``~`` where there is no home.)
    """
    if "NUMBA_CACHE_DIR" in os.environ:
        return False
    for folder in (package / "__pycache__", *(folder / "numba" for folder in user_cache())):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return False
    own = _temporary()
    with suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
    if not trusted(own):
        return False
    os.environ["NUMBA_CACHE_DIR"] = str(own)
    return True


def _temporary() -> Path:
    """The user's own folder among the temporary files."""
    return Path(tempfile.gettempdir()) / f"chipmap-{os.geteuid()}"


def homes(sources: Path) -> list[Path]:
    """Where compiled functions of a folder of sources may lie, whoever has put them there: in the folder that
    ``NUMBA_CACHE_DIR`` names, else beside the sources and in the user's cache, as numba picks them."""
    named = os.environ.get("NUMBA_CACHE_DIR")
    if named and named != str(_temporary()):
        return [below(Path(named), sources)]
    roots = [Path(named)] if named else [folder / "numba" for folder in user_cache()]
    return [sources / "__pycache__", *(below(root, sources) for root in roots)]


def below(root: Path, own: Path) -> Path:
    """The folder of numba's below ``root`` for the sources in ``own``."""
    return root / f"{own.name}_{hashlib.sha1(str(own).encode()).hexdigest()}"


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

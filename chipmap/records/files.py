"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that whoever reads it sees the old content or the new one, never a part.

    What a symbolic link names is replaced, not the link; devices and pipes are written to.
    """
    system = path.absolute().parts[1:2] in (("dev",), ("proc",))  # /dev/stdout may name a file that is open
    path = path.resolve() if path.is_symlink() and not system else path
    if path.exists() and (system or not path.is_file()):
        with open(path, "wb") as stream:
            stream.write(data)
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
    try:
        with open(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode(path))
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _mode(path: Path) -> int:
    """The permissions of the file that is replaced, or those of any new file."""
    with suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask

"""The matrix of a sweep: one SQLite file, a row per point, written in transactions as points end."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from chipmap.bench.point import Row
from chipmap.records import InputError

#: Version of the file's layout, kept in SQLite's user_version.
LAYOUT = 2
_TABLE = """
CREATE TABLE IF NOT EXISTS points (
  key TEXT PRIMARY KEY, instance TEXT, method TEXT, seed INTEGER, status TEXT, objective INTEGER, bound INTEGER,
  seconds REAL, cpu_seconds REAL, row TEXT NOT NULL, digest TEXT)
"""
#: From layout 1, whose rows have no digest.
_MIGRATE = "ALTER TABLE points ADD COLUMN digest TEXT"


class Matrix:
    """The rows done so far. A row is there as a whole or not at all, whenever the process is killed.

    One process writes at a time: a second one is refused as long as the first holds the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=0.0, isolation_level=None)
            try:
                self._open()
            except BaseException:
                self._db.close()  # else the file stays locked as long as the error is looked at
                raise
        except (sqlite3.Error, OSError, UnicodeError) as error:
            busy = "locked" in str(error)
            remedy = "Another bench writes there: wait for it." if busy else "Give --out another folder."
            raise InputError(f"can't be used as a matrix: {_said(error)}", str(path), remedy) from None

    def _open(self) -> None:
        self._db.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._db.execute("BEGIN EXCLUSIVE")
        layout = self._db.execute("PRAGMA user_version").fetchone()[0]
        if layout not in (0, 1, LAYOUT):
            self._db.execute("ROLLBACK")
            what = f"has layout {layout}, this chipmap writes {LAYOUT}"
            raise InputError(what, str(self.path), "Use the chipmap that wrote it.")
        self._db.execute(_MIGRATE if layout == 1 else _TABLE)
        self._db.execute(f"PRAGMA user_version={LAYOUT}")
        self._db.execute("COMMIT")

    def put(self, row: Row) -> None:
        """Keep ``row`` in place of any older one of its point."""
        values = (row.key, row.instance, row.method, row.seed, row.status, row.objective, row.bound)
        text = row.to_json().decode()
        more = (row.seconds, row.cpu_seconds, text, _digest(text))
        holes = ", ".join("?" * len((*values, *more)))
        try:
            self._db.execute(f"INSERT OR REPLACE INTO points VALUES ({holes})", (*values, *more))
        except (sqlite3.Error, OverflowError) as error:
            raise InputError(f"can't be written: {error}", str(self.path), "Check the disk.") from None

    def rows(self, keys: Iterable[str]) -> dict[str, Row]:
        """The rows of these points that are there, as they were put; a row that was edited since counts as missing."""
        wanted = set(keys)
        try:
            found = self._db.execute("SELECT key, row, digest FROM points").fetchall()
        except (sqlite3.Error, UnicodeError) as error:
            what = f"can't be used as a matrix: {_said(error)}"
            raise InputError(what, str(self.path), "Give --out another folder.") from None
        whole = ((key, text) for key, text, digest in found if key in wanted and _digest(text) == digest)
        return {key: Row.from_json(text, str(self.path)).renamed() for key, text in whole}

    def close(self) -> None:
        """Let the file go."""
        self._db.close()


def stored(path: Path) -> list[Row]:
    """All rows of the matrix at ``path``, which may be in use, in the order in which they were kept; what was edited
    since is left out. Raises :class:`InputError` for a file that is no matrix."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=1.0)) as db:
            found = db.execute("SELECT row, digest FROM points ORDER BY rowid").fetchall()
    except (sqlite3.Error, OSError, UnicodeError) as error:
        busy = "locked" in str(error)
        remedy = (
            "A bench writes there: wait for it." if busy else "Name a folder that `chipmap bench --out` has written."
        )
        raise InputError(f"can't be read as a matrix: {_said(error)}", str(path), remedy) from None
    return [Row.from_json(text, str(path)).renamed() for text, digest in found if _digest(text) == digest]


def _said(error: Exception) -> str:
    """SQLite's words, or the system's; SQLite quotes a damaged schema byte by byte, which its module can't decode."""
    if isinstance(error, FileExistsError | NotADirectoryError):
        return "its folder is a file, or below one"
    return "it is damaged" if isinstance(error, UnicodeError) else getattr(error, "strerror", None) or str(error)


def _digest(text: object) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()

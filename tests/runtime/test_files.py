"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chipmap.records.files import write_whole


def test_files_are_written_through_links_into_pipes_and_with_their_permissions(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.json", tmp_path / "link.json", tmp_path / "pipe"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    write_whole(link, b"new")
    assert link.is_symlink() and real.read_bytes() == b"new"
    assert real.stat().st_mode & 0o777 == 0o640
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert pipe.is_fifo()
    write_whole(Path("/dev/null"), b"away")
    assert not Path("/dev/null").is_file()


def test_a_disk_that_is_full_leaves_the_old_file_and_no_part_of_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "old.svg").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    for name in ("old.svg", "new.svg"):
        with pytest.raises(OSError, match="No space left"):
            write_whole(tmp_path / name, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["old.svg"]
    assert (tmp_path / "old.svg").read_text() == "old"

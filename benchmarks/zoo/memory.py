"""Memory and time of ``chipmap convert`` for an archive with the weights of a network of billions of parameters."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import zipfile
from pathlib import Path

from benchmarks.zoo.measure import command

#: Bytes of an element by the number that an archive gives its type.
_BYTES = {2: 1, 4: 4, 5: 8, 6: 2, 7: 4, 8: 8, 13: 2}


def with_weights(source: Path, to: Path) -> int:
    """Write ``source``, an archive exported without data, with weights of their sizes; the bytes of these.

    The weights are holes in the file: they have their place in it and take none on the disk. Without data, PyTorch
    takes all weights for one and the same, so that each gets an entry here.
    """
    total = 0
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(to, "w", zipfile.ZIP_STORED) as made:
        for info in archive.infolist():
            parts = info.filename.split("/")
            if parts[-2:-1] != ["weights"]:
                made.writestr(info.filename, archive.read(info))
            elif parts[-1] == "model_weights_config.json":
                weights = json.loads(archive.read(info))
                for i, weight in enumerate(weights["config"].values()):
                    weight["path_name"] = f"weight_{i}"
                    meta = weight["tensor_meta"]
                    size = math.prod(extent["as_int"] for extent in meta["sizes"]) * _BYTES[meta["dtype"]]
                    _add_hole(made, "/".join([*parts[:-1], weight["path_name"]]), size)
                    total += size
                made.writestr(info.filename, json.dumps(weights))
    return total


def _add_hole(archive: zipfile.ZipFile, name: str, size: int) -> None:
    info = zipfile.ZipInfo(name)
    info.file_size = info.compress_size = size
    info.CRC = 0
    file = archive.fp
    assert file is not None
    info.header_offset = file.tell()
    file.write(info.FileHeader(zip64=size >= 2**31))
    file.seek(size, 1)
    archive.start_dir = file.tell()
    archive.filelist.append(info)
    archive.NameToInfo[name] = info


def run(source: Path) -> None:
    """Convert the archive as it is and with weights of their sizes; print a line for each.

    ``measure`` of the same folder puts the lines, kept in ``memory.json``, on its page.
    """
    needed, lines = {}, []
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        large, out = Path(folder) / source.name, Path(folder) / "instance.json"
        total = with_weights(source, large)
        for what, path in (("no weights", source), (f"weights of {total / 1e9:.2f} GB", large)):
            done, seconds, needed[what] = command("convert", str(path), "--family", "ring", "--out", str(out))
            said = done.stderr.splitlines()[0]
            peak = f"{needed[what] / 1024:.0f} MiB"
            lines.append(
                f"`{source.name}`, {what} ({path.stat().st_size:,} bytes): {seconds:.1f} s, peak {peak}; {said}"
            )
            if done.returncode:
                shutil.rmtree(folder, ignore_errors=True)
                raise SystemExit(done.stderr)
    less, more = needed.values()
    lines.append(f"The weights cost {round((more - less) / 1024)} MiB.")
    (source.parent / "memory.json").write_text(json.dumps(lines, indent=1) + "\n")
    print("\n".join(lines))

"""What a result can do beyond its figures while its instance is at hand: names, tables, files, pictures."""

from __future__ import annotations

import importlib.util
import io
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from chipmap import archive
from chipmap.family import Family, family_of, resolve
from chipmap.inputs.reading import read
from chipmap.records import InputError, Record
from chipmap.result import Picture, Result

#: The tables that families write beside a solution, as far as they do.
TABLES = ("mapping.csv", "schedule.csv")


class Deeds:
    """The instance of a result (made when it is first needed), and what the two together give."""

    def __init__(self, result: Result, instance: Callable[[], Record]) -> None:
        self._result, self._read = result, instance

    @cached_property
    def instance(self) -> Record:
        """The instance."""
        return self._read()

    @property
    def family(self) -> Family:
        """The instance's family."""
        return family_of(self.instance)

    @property
    def solution(self) -> Record:
        """The solution as a record; :class:`InputError` without one."""
        if self._result.solution is None:
            what = f"holds no solution: it is {self._result.status}"
            raise InputError(what, self._result.instance, "`chipmap explain` says why, or give it more time.")
        found: Record = resolve(self.family.solution).make(**self._result.solution)
        return found

    def mapping(self) -> dict[str, Any]:
        """Where everything runs, by name (:mod:`chipmap.inputs.by_name`)."""
        found: dict[str, Any] = resolve(self.family.mapping)(self.instance, self.solution)
        return found

    def frame(self) -> Any:
        """The table that the family writes beside the solution, else the mapping's entries, as a table of pandas."""
        if importlib.util.find_spec("pandas") is None:
            remedy = 'pip install "chipmap[pandas]", or use result.mapping, a dict.'
            raise InputError("needs pandas, which isn't installed here", "to_frame", remedy)
        import pandas

        files = archive.beside(self._result, self.instance)
        name = next((name for name in TABLES if name in files), None)
        if name is None:
            return pandas.DataFrame([{"name": name, **values} for name, values in self.mapping().items()])
        table = io.BytesIO(files[name])
        return pandas.read_csv(table, dtype={"name": str}, keep_default_na=False, na_values=[""])

    def save(self, folder: str | Path) -> Path:
        """The archive that ``chipmap solve --out`` writes."""
        writer = None
        try:
            writer = archive.Writer(folder)
            return archive.finish(writer, self._result, self.instance)
        except OSError as error:
            if writer is not None:
                writer.abandon()
            raise InputError(f"can't be written: {error.strerror}", str(folder), "Name another folder.") from None

    def plot(self, file: str | Path | None) -> Path | Picture:
        """The picture of the solution, in ``file`` or for a notebook."""
        if file is not None:
            self.family.draw(file, self.instance, self.solution, bound=self._result.bound)
            return Path(file)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "solution.png"
            self.family.draw(path, self.instance, self.solution, bound=self._result.bound)
            return Picture(path.read_bytes())

    def emit(self, name: str, model: str) -> dict[str, bytes]:
        """The plan's files in a format (:mod:`chipmap.plans.emission`)."""
        made: dict[str, bytes] = resolve("chipmap.plans.emission:emit")(
            self._result, self.instance, self.solution, name, model
        )
        return made

    def plan_formats(self) -> list[dict[str, str | None]]:
        """The family's formats of plans, and why some don't suit."""
        listed = resolve("chipmap.plans.emission:listed")(self.family, self.instance, self.solution)
        return [{"format": form.name, "title": form.title, "why_not": reason} for form, reason in listed]


def attached(result: Result, instance: Record) -> Result:
    """The result, which from now on can do what needs its instance."""
    result.attach(Deeds(result, lambda: instance))
    return result


def load(directory: str | Path) -> archive.Archive:
    """The archive at ``directory``; :class:`InputError` if it is missing, half-written or damaged."""
    found = archive.load(directory)
    found.result.attach(Deeds(found.result, lambda: read(found.path)))
    return found

"""Nothing is dead: the commands, the public API, pages and families' records reach every definition."""

from __future__ import annotations

from pathlib import Path

from tests.dead_code import dead


def test_nothing_is_dead() -> None:
    assert not [one.place for one in dead()]


def test_what_nothing_calls_is_found(tmp_path: Path) -> None:
    """A function that only a dead one calls is dead; one that a text names, or an import elsewhere, is not."""
    package = tmp_path / "chipmap"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from chipmap.inner.a import used\n")
    source = "def used(): return inner\ndef inner(): pass\ndef dead(): return deader()\ndef deader(): pass\n"
    (package / "inner/a.py").write_text(f"{source}class Kept:\n    def called(self): pass\n    def never(self): pass\n")
    (package / "b.py").write_text('X = "a:Kept"\nY = X.called\n')
    names = [one.place.rpartition(" ")[2] for one in dead(tmp_path)]
    assert names == ["dead", "deader", "Kept.never"]

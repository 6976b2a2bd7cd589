"""Readers of published graph formats; :mod:`chipmap.instances.importers.reading` finds the right one."""

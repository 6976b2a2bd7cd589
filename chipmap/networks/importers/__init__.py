"""Readers of published graph formats; :mod:`chipmap.networks.importers.reading` finds the right one."""

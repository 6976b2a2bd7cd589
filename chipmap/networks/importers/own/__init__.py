"""Graphs that people write themselves: tables in CSV, JSON of nodes and edges, DOT, and objects of Python.

All of them come to rows of nodes and edges (:mod:`.rows`), whose fields are those of :mod:`.fields`.
"""

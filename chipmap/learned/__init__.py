"""Learned policies (extra ``learned``: torch). :mod:`chipmap.learned.features` and :mod:`~chipmap.learned.needs` do
without it; whatever imports torch asks :func:`chipmap.learned.needs.require` first."""

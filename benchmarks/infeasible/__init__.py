"""Instances without a solution, whose reasons are known, and their neighbours that have one.

A pair is made of a random tiny instance. All candidates are listed by code written from the family's page alone. The
least amount of one resource with which some candidate is valid gives the pair: with that amount there is a solution,
with one unit less there is none, and for each set of labels it is known whether they contradict each other.
"""

"""Comparisons of sessions: which one is better, whether the difference is real, and whether the comparison is fair.

This package takes reports of sessions and returns immutable values. No recordings are read here.
"""

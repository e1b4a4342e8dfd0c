"""Comparisons of sessions: which one is better, whether the difference is real, and whether the comparison is fair.

The package takes reports of sessions and returns frozen values. It reads no recording and prints nothing.
"""

"""Comparisons of sessions: which one is better, whether the difference is real, and whether the comparison is fair.

This package takes reports of sessions and returns frozen values. It reads no recordings and prints nothing.
"""

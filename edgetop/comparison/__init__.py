"""Comparisons of sessions: which is better, whether that is real, and whether it was fair.

Pure: it takes the reports of sessions and gives frozen values. It reads no recording and prints nothing.
"""

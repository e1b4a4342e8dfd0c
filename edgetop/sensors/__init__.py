"""Sensors read the board. Discovery is by content, a missing value is a gap with a reason.

One file a quantity or chip, each with a `discover` of its own. All file access goes through an injected `Root`, so that
a captured board is read exactly like a real one; only what is about edgetop's own processes comes from the real /proc.
"""

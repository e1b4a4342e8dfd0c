"""Sensors read the board. They are found by what files contain, and a missing value is a gap with a reason.

Each quantity or chip has a file with its own `discover`. All file access goes through a `Root` that is passed as an
argument, so that a captured board is read exactly like a real one. Only data about the engine's and edgetop's processes
comes from the real /proc.
"""

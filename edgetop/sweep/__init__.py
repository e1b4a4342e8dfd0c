"""Sweeps: every combination of models and settings, each in sessions of its own, and which of them to take.

Pure but for the file of the plan: it starts nothing and prints nothing.
"""

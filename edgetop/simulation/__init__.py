"""The virtual board: simulated heat, power and trouble around an engine whose inferences are real.

It is an implementation of a board, not a mock: it writes the files that a real one has, and the
ordinary sensors read them. The engine's own CPU time heats it, and its clock slows the engine.
It must never pass for real: its sensors and its sessions are marked as simulated.
"""

"""The virtual board: simulated heat, power and faults around an engine whose inferences are real.

The virtual board writes the files of a real board, and the ordinary sensors read them. The engine's CPU time heats the
virtual board, and the board's clock slows the engine. A virtual board must never be taken for a real board, so its
sensors and sessions are marked as simulated.
"""

"""The virtual board: simulated heat, power and faults around an engine whose inferences are real.

It writes the files of a real board, and the ordinary sensors read them. The engine's CPU time heats it, and its clock
slows the engine. It must never be taken for a real board, so its sensors and sessions are marked as simulated.
"""

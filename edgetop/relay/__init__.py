"""The protocol between a board and a viewer that watches its session from another machine.

The board's side reads a recording and sends what a screen needs of it, as a journal's frames hold it; the laptop's
side makes batches of that again. Bytes from either side are data of a stranger: bounded, checked, never run.
Following a session and decoding need no Arrow.
"""

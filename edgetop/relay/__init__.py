"""The protocol between a board and a viewer that watches its session from another machine.

The board's side reads a recording and sends what a screen needs of it, in the format of a journal's frames; the
laptop's side makes batches of that again. Neither side trusts the bytes of the other: they are bounded, checked and
never run. Following a session and decoding need no Arrow.
"""

"""The protocol between a board and a viewer that watches its session from another machine.

The board reads a recording and sends as much of it as a screen needs, in the format of a journal's frames. The viewer
decodes the frames into batches. Neither side trusts the other: sizes are limited, contents are checked, and nothing is
executed. Following a session and decoding work without Arrow.
"""

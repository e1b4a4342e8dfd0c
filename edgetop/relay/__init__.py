"""The protocol between a board and a viewer that watches its session from another machine.

The board reads a recording and sends the part that a screen needs, encoded like the frames of a journal (the files that
a running session appends to). The viewer decodes the frames into batches. Neither side trusts the other: sizes are
limited, contents are checked, and nothing is executed. Arrow is not needed.
"""

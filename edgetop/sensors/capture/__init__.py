"""Capture a board in a file: everything that its sensors read, and nothing that identifies its owner.

`wanted.py` lists what is taken, and `private.py` removes private data. The file is written only after the user has seen
the list.
"""

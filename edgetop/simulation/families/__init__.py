"""The files of each family of boards, as its kernel and firmware have them, made from the state of the machine.

A family has `LINKS` (path -> where it leads), `FIXED` (what never changes) and `files(machine)`.
"""

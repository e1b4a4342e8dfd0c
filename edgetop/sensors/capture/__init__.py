"""A board as a file: what its sensors consist of, and nothing that identifies its owner.

What is taken is listed in `wanted.py`; what is private is removed by `private.py`; nothing
is written before the user has seen the list.
"""

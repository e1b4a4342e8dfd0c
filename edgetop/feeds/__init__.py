"""A feed plays a session: live, attached or replayed, behind one protocol.

Who reads a feed must not ask which kind it is, only what it can do.
"""

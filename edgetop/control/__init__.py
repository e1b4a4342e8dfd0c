"""Orders to a running session from the user's other processes, through a Unix socket in the session's folder.

Each connection carries one order and one answer, each a line of JSON. Nothing listens on a network.
"""

"""Orders from other processes of the user to a running session, through a Unix socket in the session's folder.

Each connection carries one order and one answer, each a line of JSON. Nothing listens on a network.
"""

"""Send commands, such as a stop, to a running session through a Unix socket in the session's folder.

Each connection carries one command (called order) and one answer, each a line of JSON. Nothing listens on a network.
"""

"""Send commands, such as a stop, to a running session through a Unix socket in the session's folder.

Each connection carries one command (called an order) and one answer. Each of them is a line of JSON. Nothing listens on
a network.
"""

"""Engines load the model in a runtime and run it.

An engine reports what it loaded, then sends a record of each inference. It is a child process (the default) or a thread
of edgetop. Both run the same loop, which is in `edgetop.engines.child`, with any of the runtimes that are listed there.
"""
